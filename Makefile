# Each target makes its own virtual environment: a fresh machine needs Python >= 3.11 and make, nothing else.
PYTHON ?= python3
VENV ?= .venv
PIP_INSTALL = $(VENV)/bin/python -m pip install --quiet -c constraints.txt
# The build of torch for processors; the one that PyPI has for Linux brings 4 GB of CUDA. TORCH_INDEX= takes it all the same.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: demo test test-plain test-all lint site packages results clean

demo: $(VENV)/.demo
	HF_HUB_OFFLINE=1 $(VENV)/bin/python examples/demo.py

# Files of tests run side by side, each on one thread; in the order of folders, which leaves small files for the end.
# What Python compiles is kept, whatever the environment says: each worker, and each process that a test starts, reads it again.
PYTEST = PYTHONDONTWRITEBYTECODE= HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -q -n logical --dist loadfile --no-loadscope-reorder

test: $(VENV)/.test
	$(PYTEST) -m "not database and not device and not process and not slow"

# The tests of encoders as on a processor without instructions for bfloat16.
test-plain: $(VENV)/.test
	GRAPH_RETRIEVERS_PLAIN=1 $(PYTEST) tests/unit/test_encoder.py tests/unit/test_sentence_encoder.py \
		tests/unit/test_cross_encoder.py tests/integration/test_minilm.py

test-all: $(VENV)/.test
	$(PYTEST)

lint: $(VENV)/.test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

# The documentation as a site, in site/: links are checked, and nothing in it is fetched from elsewhere.
site: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

# Sdists and wheels in dist/, tried in new environments.
packages: $(VENV)/.demo
	$(PIP_INSTALL) build twine
	$(VENV)/bin/python tools/packages.py

# The tables and pictures of the shared datasets: benchmarks/results (an hour or more on two cores).
results: $(VENV)/.test
	HF_HUB_OFFLINE=1 $(VENV)/bin/python benchmarks/results.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
ifneq ($(TORCH_INDEX),)
	$(PIP_INSTALL) --no-deps --retries 1 --timeout 15 --index-url $(TORCH_INDEX) torch \
		|| echo "There is no torch at $(TORCH_INDEX); pip takes the one that it finds elsewhere."
endif

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP_INSTALL) -e '.[langchain,llama-index,offline]'
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP_INSTALL) -e '.[test]'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP_INSTALL) -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV)
