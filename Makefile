# make book   from a fresh clone to the HTML book, every notebook executed
# make test   everything tested, notebooks and book included
# Every path is relative and every tool is called as a module: the clone's path may hold a space.

PYTHON ?= python3
PROFILE ?= quick
python = .venv/bin/python
install = $(python) -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: book test notebooks clean
.DELETE_ON_ERROR:

book: notebooks
	@echo "== building the book"
	@$(python) -m headbook book

notebooks: .venv/.package
	@echo "== executing the notebooks at profile $(PROFILE)"
	@$(python) -m headbook run --profile $(PROFILE)

test: .venv/.tests
	@echo "== testing"
	@$(python) -m pytest

.venv/.package: pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "headbook needs Python 3.11 or newer, and $(PYTHON) is not:" \
	    "install one, or name it: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot create environments:" \
	    "install its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "== creating the environment .venv"
	@"$(PYTHON)" -m venv --clear .venv
	@echo "== installing torch"
	@$(install) "$$(grep '^torch==' constraints.txt)"
	@echo "== installing headbook"
	@$(install) -e '.[released]'
	@touch $@

.venv/.tests: .venv/.package
	@echo "== installing the test tools"
	@$(install) -e '.[released,test]'
	@touch $@

clean:
	rm -rf .venv build book/_executed
