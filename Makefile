# Every target sets up what it needs. `make demo` and `make test` are the two to know.
#
#   make demo         a tour in the terminal
#   make test         the test suite, on the compiled build where a C compiler is found
#   make thorough     the tests that take too long for CI: compiled programs and fuzzing
#   make test-pure    the test suite on the pure Python build
#   make test-cuda    tests/cuda with $(PYTHON), which needs CuPy to run them on a GPU
#   make docs         the site, in build/site; its pages, plots and notebooks are run
#   make lint         ruff, and mypy (strict on the core)
#   make generate     the files that follow from the blocks: stubs, names, docs/operators.md
#   make parity       differential tests against PyTorch, and its whole operator table
#   make parity-page  the operator table again, written to docs/parity.md
#   make parity-pure  the same on the pure Python build, as far as the core matters
#   make conformance PYTORCH=path  PyTorch's own tests, from a checkout of its source
#   make evidence-page  docs/evidence.md from the records in docs/evidence
#   make golden       record again what PyTorch answers (tests/golden)
#   make bench        timings against PyTorch;  make bench-pure for the pure build
#   make bench-page   the same, written to docs/benchmarks.md
#   make survey       every function against PyTorch;  make survey-page writes docs/survey.md
#   make bench-zoo    training programs unlike each other, compiled and as they are
#   make libraries    other people's libraries on both, written to docs/libraries.md
#   make libraries-quick  a part of them that takes a minute or two
#   make sanitize     the kernels in C under AddressSanitizer and UBSan (GCC, Linux)
#   make tsan         the same under ThreadSanitizer, with several threads of Python
#   make fuzz         all that tries to break the library, for FUZZ_SECONDS
#   make python314    core tests of the source tree on Debian's Python 3.14, where it can be had
#   make i386         the same on a 32-bit Python;  make arm64  kernels in C, cross-compiled, under QEMU
#   make mingw        the kernels in C compiled and linked for Windows; nothing is run
#   make wheel        the sdist, and both wheels built from it, in dist/
#   make clean        remove everything that was made here

PYTHON ?= python3
VENV ?= .venv
VENV_PURE ?= .venv-pure
VENV_PARITY ?= .venv-parity
VENV_DOCS ?= .venv-docs
VENV_DEMO ?= .venv-demo
VENV_LIBRARIES ?= .venv-libraries
TORCH ?= torch==2.13.0
# Set this to the index of PyTorch's CPU-only wheels to spare the CUDA packages; else pip decides.
TORCH_INDEX ?=
WORKERS ?= 2
PYTEST_ARGS ?=
# Which tests: CI leaves out the thorough ones only.
SELECT ?= -m "not slow and not thorough"

comma := ,
PIP_INSTALL = -m pip install -qq --disable-pip-version-check
BUILD_TOOLS = "setuptools>=77" wheel "mypy>=1.19" "numpy>=2"
PARITY_TOOLS = "pytest>=9" pytest-xdist hypothesis "ml_dtypes>=0.4" expecttest \
    onnx onnxruntime array-api-compat tensorboard
PYTEST = -m pytest -n $(WORKERS) -q $(SELECT) $(PYTEST_ARGS)
SOURCES := pyproject.toml setup.py README.md LICENSE \
    $(wildcard src/*.py src/*.pth) \
    $(shell find src/tapegrad -name __pycache__ -prune -o -print)

.PHONY: help demo test thorough test-pure test-cuda docs lint generate parity parity-pure parity-page golden bench \
    bench-pure bench-page bench-zoo survey survey-page libraries libraries-quick sanitize tsan fuzz wheel clean \
    python314 i386 arm64 mingw conformance evidence-page
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

# From the source tree, with NumPy and ml_dtypes alone: nothing is compiled for a look.
demo: $(VENV_DEMO)/.tools
	@PYTHONPATH=src $(VENV_DEMO)/bin/python -m tapegrad demo

test: $(VENV)/.installed
	$(VENV)/bin/python $(PYTEST)

# What takes too long for CI: every op and trap compiled in all forms, the zoo, fuzzing at length.
thorough: $(VENV)/.installed
	$(VENV)/bin/python -m pytest -n $(WORKERS) -q -m thorough $(PYTEST_ARGS)

test-pure: $(VENV_PURE)/.installed
	$(VENV_PURE)/bin/python $(PYTEST)

# From the source tree, with whatever Python has CuPy, NumPy and pytest. Without a GPU a stand-in for
# CuPy takes its place, as in `make test`, and the fused kernels are skipped.
test-cuda:
	@PYTHONPATH=src $(PYTHON) -c "from tapegrad.cuda import runtime; runtime.look() or print( \
	  'skipped: what needs a GPU, since $(PYTHON) finds no CuPy or no device')"
	PYTHONPATH=src $(PYTHON) -m pytest -q $(PYTEST_ARGS) tests/cuda

# The pages' code runs from the source tree while the site is built; a warning fails the build.
docs: $(VENV_DOCS)/.tools
	PYTHONPATH=src $(VENV_DOCS)/bin/python -m sphinx -q -W --keep-going docs build/site
	$(VENV_DOCS)/bin/python docs/_ext/check_links.py build/site
	PYTHONPATH=src $(VENV_DOCS)/bin/python -m pytest -q tests/test_more_examples.py
	@echo "the site is in build/site/index.html"

LINTED = src tests examples tools benchmarks docs/_ext docs/conf.py setup.py
lint: $(VENV)/.tools
	$(VENV)/bin/ruff check $(LINTED)
	$(VENV)/bin/ruff format --check $(LINTED)
	$(VENV)/bin/mypy
	$(VENV)/bin/python tools/generate.py --check

generate: $(VENV)/.tools
	$(VENV)/bin/python tools/generate.py

parity: $(VENV_PARITY)/.installed
	$(VENV_PARITY)/bin/python $(PYTEST) tests/parity
	$(VENV_PARITY)/bin/python tests/parity/opdb.py --workers $(WORKERS)

# The source tree itself is the pure build: it wins over the installed package. What differs between
# the builds is the core, so this leaves out what hardly touches it.
PURE_PARITY = test_ops.py test_random_programs.py test_training.py
parity-pure: $(VENV_PARITY)/.tools
	PYTHONPATH=src $(VENV_PARITY)/bin/python $(PYTEST) $(PURE_PARITY:%=tests/parity/%)

parity-page: $(VENV_PARITY)/.tools
	PYTHONPATH=src $(VENV_PARITY)/bin/python tests/parity/opdb.py --workers $(WORKERS) --write
	PYTHONPATH=src $(VENV_PARITY)/bin/python tools/names.py --write

# CONFORMANCE_FILES: files in its folder test/, by default those that tools/conformance.py names.
conformance: $(VENV_PARITY)/.tools
	PYTHONPATH=src $(VENV_PARITY)/bin/python tools/conformance.py "$(PYTORCH)" $(CONFORMANCE_FILES)

# `--record` of a tool that measures adds a record: tools/evidence.py names them.
evidence-page:
	$(PYTHON) tools/evidence.py --write

golden: $(VENV_PARITY)/.tools
	$(VENV_PARITY)/bin/python tests/programs/record.py
	$(VENV_PARITY)/bin/python tests/mistakes.py

bench: $(VENV_PARITY)/.installed
	$(VENV_PARITY)/bin/python benchmarks/run.py

bench-page: $(VENV_PARITY)/.installed
	$(VENV_PARITY)/bin/python benchmarks/run.py --write

survey: $(VENV_PARITY)/.installed
	$(VENV_PARITY)/bin/python benchmarks/survey.py

survey-page: $(VENV_PARITY)/.installed
	$(VENV_PARITY)/bin/python benchmarks/survey.py --full --write

bench-zoo: $(VENV)/.installed
	$(VENV)/bin/python benchmarks/zoo/run.py

bench-pure: $(VENV_PARITY)/.tools
	PYTHONPATH=src $(VENV_PARITY)/bin/python benchmarks/run.py

# Packages of other people, installed without PyTorch; PyTorch itself is the parity environment's.
LIBRARIES = $(VENV_LIBRARIES)/bin/python tools/libraries.py --install \
    --python $(VENV_LIBRARIES)/bin/python --oracle $(VENV_PARITY)/bin/python
libraries: $(VENV_PARITY)/.tools
	$(call make_venv,$(VENV_LIBRARIES))
	$(LIBRARIES) --write

libraries-quick: $(VENV_PARITY)/.tools
	$(call make_venv,$(VENV_LIBRARIES))
	$(LIBRARIES) --quick

# The kernels of this tree, compiled apart into build/$(1) with the checker $(2). Tests then run from
# the sources with the checkers' libraries in front. Python itself leaks by their standards, so leaks
# are not looked for, nor is it asked how much memory there is: they keep what was freed for a while.
define checked_kernels
	rm -rf build/$(1) && mkdir -p build/$(1) && cp -r src/. build/$(1)/
	find build/$(1) -name '*.so' -delete
	$(CC) -std=gnu11 -O1 -g -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math \
	  -fsanitize=$(2) -fno-sanitize-recover=undefined -DTG_ONE_VERSION -shared -fPIC \
	  $$($(VENV)/bin/python -c "import numpy, sysconfig as s; \
	    print('-I' + numpy.get_include(), '-I' + s.get_paths()['include'])") \
	  $$(find build/$(1)/tapegrad/kernels/cpu/c -type d | sed 's/^/-I/') \
	  build/$(1)/tapegrad/kernels/cpu/c/*/*.c -o build/$(1)/tapegrad/kernels/cpu/_kernels.so \
	  -lpthread -lm
endef

# Calls of kernels, and damaged files of each kind. The seed and the counts are fixed: the same tree
# passes or fails every time, on a slow machine and a fast one; `make fuzz` and FUZZ_SEED=-1 take
# another seed every time.
FUZZ_CALLS ?= 2500
FUZZ_FILES ?= 10000
FUZZ_SEED ?= 1
SANITIZED = ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
  PYTHONPATH=build/sanitized TAPEGRAD_NATIVE=1 \
  LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)"
sanitize: $(VENV)/.tools
	$(call checked_kernels,sanitized,address$(comma)undefined)
	$(SANITIZED) $(VENV)/bin/python -m pytest -q -n $(WORKERS) -p no:cacheprovider \
	    $(wildcard tests/test_native*.py) tests/test_compile.py tests/test_compile_memory.py \
	    --deselect tests/test_compile.py::test_a_hundred_thousand_replays_have_flat_memory \
	    --deselect tests/test_compile_memory.py::test_recording_takes_no_more_memory_than_running \
	    --deselect tests/test_compile_memory.py::test_a_large_recorded_step_needs_little_more
	$(SANITIZED) $(VENV)/bin/python tests/fuzz/run.py --only layouts --count $(FUZZ_CALLS) --seed $(FUZZ_SEED)
	$(SANITIZED) $(VENV)/bin/python tests/fuzz/run.py --only files --count $(FUZZ_FILES) --jobs $(WORKERS) \
	    --seed $(FUZZ_SEED)

# Threads of Python that compute at the same time; a data race in C ends the run. Nothing forks here:
# the checker does not follow a process with threads into its child.
tsan: $(VENV)/.tools
	$(call checked_kernels,tsan,thread)
	TSAN_OPTIONS="exitcode=66 halt_on_error=1 history_size=4" PYTHONPATH=build/tsan \
	  TAPEGRAD_NATIVE=1 LD_PRELOAD="$$($(CC) -print-file-name=libtsan.so)" \
	  $(VENV)/bin/python tests/fuzz/run.py --only threads --seconds 40

FUZZ_SECONDS ?= 120
fuzz: $(VENV)/.installed
	$(VENV)/bin/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

# Pythons of Debian's, unpacked into build/ (exit status 75: they cannot be had here). What depends on
# the Python and its counts of references is in `compile`; what depends on the size of a pointer, in the
# operations and what is recorded of PyTorch.
AWAY = -m pytest -q -p no:cacheprovider -m "not slow and not thorough" $(PYTEST_ARGS)
CORE_TESTS = tests/test_engine.py tests/test_programs.py tests/test_kept.py
python314:
	@PYTHON=$(PYTHON) tools/debian_python.sh build/python3.14 3.14; status=$$?; \
	  if [ $$status = 75 ]; then echo "skipped: Python 3.14"; exit 0; fi; [ $$status = 0 ] || exit 1; \
	  PYTHONPATH=src build/python3.14/usr/bin/python3.14 $(AWAY) $(CORE_TESTS) tests/test_compile.py \
	    tests/test_compile_memory.py tests/test_compile_sound.py tests/test_compile_pieces.py

i386:
	@PYTHON=$(PYTHON) tools/debian_python.sh build/i386 3.13 i386; status=$$?; \
	  if [ $$status = 75 ]; then echo "skipped: 32-bit"; exit 0; fi; [ $$status = 0 ] || exit 1; \
	  PYTHONPATH=src build/i386/usr/bin/python3.13 $(AWAY) $(CORE_TESTS) tests/test_ops.py \
	    tests/test_special.py tests/test_triangles.py

arm64:
	PYTHON=$(PYTHON) tools/arm64.sh $(PYTEST_ARGS)

mingw:
	@PYTHON=$(PYTHON) tools/mingw.sh

# Both wheels come from the sdist, so that a file which it lacks is noticed.
wheel: $(VENV)/.tools
	rm -rf dist/tapegrad-* src/tapegrad.egg-info
	$(VENV)/bin/python setup.py -q sdist -d dist
	$(VENV)/bin/python -m pip wheel -q --no-deps --no-build-isolation -w dist dist/tapegrad-*.tar.gz
	TAPEGRAD_PURE=1 $(VENV)/bin/python -m pip wheel -q --no-deps --no-build-isolation -w dist dist/tapegrad-*.tar.gz
	@ls -l dist

clean:
	rm -rf $(VENV) $(VENV_PURE) $(VENV_PARITY) $(VENV_DOCS) $(VENV_DEMO) $(VENV_LIBRARIES) build docs/reference dist src/tapegrad.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# --- environments ---------------------------------------------------------------------------

# Some systems ship python3 without ensurepip: then pip itself puts pip into the environment.
define make_venv
	@test -x $(1)/bin/python || { echo "making $(1) ..."; \
	  $(PYTHON) -m venv $(1) >/dev/null 2>&1 || { \
	    rm -rf $(1); $(PYTHON) -m venv --without-pip $(1) && \
	    $(PYTHON) -m pip --python $(1)/bin/python install -qq pip; }; }
endef

# Installed, not linked: what is tested is what a user gets.
define install_package
	@echo "installing tapegrad into $(1) ..."
	@$(2) $(1)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation --force-reinstall .
	@$(1)/bin/python -c \
	  "import tapegrad.__config__ as c; print(*c.show().splitlines()[:2], sep='\n')"
	$(if $(2),,@$(1)/bin/python -c "import tapegrad.__config__ as c; c.is_compiled() or \
	  print('  (the core did not compile here: \`pip install -v .\` shows why)')")
endef

$(VENV)/.tools $(VENV_PURE)/.tools: pyproject.toml Makefile
	$(call make_venv,$(@D))
	@echo "installing the development tools into $(@D) ..."
	@$(@D)/bin/python $(PIP_INSTALL) $(BUILD_TOOLS) $$($(@D)/bin/python -c "import tomllib; \
	  own = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*[d.partition(';')[0] for d in own['dependencies']], *own['optional-dependencies']['dev'])")
	@touch $@

$(VENV_DEMO)/.tools: pyproject.toml
	$(call make_venv,$(@D))
	@echo "installing NumPy and ml_dtypes into $(@D) ..."
	@$(@D)/bin/python $(PIP_INSTALL) $$($(@D)/bin/python -c "import tomllib; \
	  own = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*[d.partition(';')[0] for d in own['dependencies']])")
	@touch $@

$(VENV_DOCS)/.tools: pyproject.toml Makefile
	$(call make_venv,$(@D))
	@echo "installing Sphinx and what the notebooks need into $(@D) ..."
	@$(@D)/bin/python $(PIP_INSTALL) $$($(@D)/bin/python -c "import tomllib; \
	  own = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*[d.partition(';')[0] for d in own['dependencies']], *own['optional-dependencies']['docs'])")
	@touch $@

$(VENV_PARITY)/.tools: Makefile
	$(call make_venv,$(@D))
	@echo "installing $(TORCH) and the test tools into $(@D) ..."
	@$(@D)/bin/python $(PIP_INSTALL) $(BUILD_TOOLS) $(PARITY_TOOLS)
	@$(@D)/bin/python $(PIP_INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$(TORCH)"
	@touch $@

$(VENV)/.installed: $(VENV)/.tools $(SOURCES)
	$(call install_package,$(@D),)
	@touch $@

$(VENV_PURE)/.installed: $(VENV_PURE)/.tools $(SOURCES)
	$(call install_package,$(@D),TAPEGRAD_PURE=1)
	@touch $@

$(VENV_PARITY)/.installed: $(VENV_PARITY)/.tools $(SOURCES)
	$(call install_package,$(@D),)
	@touch $@
