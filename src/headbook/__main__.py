"""`python -m headbook` is the command line, also where no console script can run."""

from headbook.cli import app

if __name__ == "__main__":
    app(prog_name="headbook")
