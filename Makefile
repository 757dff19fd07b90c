# The two commands of the README are `make demo` and `make test`; each does all the set-up that it needs.
PYTHON_IN := .venv/bin/python
PYTEST    := $(PYTHON_IN) -m pytest

# Sizes and faults of the demo: make demo TP=1 PP=2 EP=2 ENGINE_TP=2 ENGINE_EP=2 MODEL=dense FAULT=swap-experts
# (given on make's own command line: a TP or WORLD of the environment is somebody else's)
DEMO_OPTIONS := $(foreach option,TP PP VPP CP EP ETP WORLD STAGES MODEL ENGINE_TP ENGINE_EP STEPS LEARNING_RATE BUCKET_MB FAULT PORT,\
	$(if $(filter command,$(firstword $(origin $(option)))),--$(subst _,-,$(shell echo $(option) | tr A-Z a-z)) $($(option)))) $(if $(KEEP),--keep)

.PHONY: setup demo test test-fast test-ci test-full faults fuzz lint docs bench clean

setup:
	@scripts/setup.sh

demo: setup
	@$(PYTHON_IN) -m examples.bridge_mode $(DEMO_OPTIONS)

test-fast: setup
	$(PYTEST) tests/unit tests/fingerprint --ignore tests/fingerprint/test_interpreted.py -m "not ci and not full"

test: setup
	$(PYTEST) -m "not ci and not full"

test-ci: setup lint docs
	$(PYTEST) -m ci

test-full: setup
	$(PYTEST) -m "ci or full"

faults: setup
	$(PYTHON_IN) scripts/faults.py

# More of the mutations that `make test-ci` tries a few of, on more topologies, each time others: make fuzz EXAMPLES=1000
fuzz: setup
	FUZZ_EXAMPLES=$(or $(EXAMPLES),200) $(PYTEST) tests/faults/test_mutations.py --timeout 0

lint: setup
	$(PYTHON_IN) -m ruff check .
	$(PYTHON_IN) -m ruff format --check .
	$(PYTHON_IN) -m mypy

# A warning is an error: strict mode stands in mkdocs.yml. The variable silences an advertisement.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(PYTHON_IN) -m mkdocs build

bench: setup
	$(PYTHON_IN) -m benchmarks.fingerprint
	$(PYTHON_IN) -m benchmarks.audit
	$(PYTHON_IN) -m benchmarks.readback
	$(PYTHON_IN) -m benchmarks.summary

clean:
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
