# Thin: everything is in bootstrap.py, which Windows runs as `py bootstrap.py lab`.
#
#   make lab            make the environment and open JupyterLab on the first chapter
#   make test           run the tests and all chapters, without a key and without a network
#   make test-browser   run the chapters in a real JupyterLab in Chromium
#   make soak           run the tests that take minutes: a thousand killed writers, runs killed at every step
#   make notebooks      run chapters from top to bottom and write them back: make notebooks CH="00 01" CHECK=1
#   make lint           ruff, over notebooks too
#   make bench          measure what the harness costs
#   make peers          fetch other frameworks, for their rows in make bench: 30 MB, once
#   make local-model    serve a small model on this machine for the live cells: no key, 130 MB fetched once
#   make doctor         say what is here and what is missing
#   make lock           remake the locks from pyproject.toml and requirements.peers.in: make lock ARGS=--upgrade
#   make clean          remove the environment and the caches
#
# PYTHON chooses the interpreter; ARGS goes on to the tool behind: make test ARGS="-k registry".

PYTHON ?= python3
ARGS ?=
CH ?=
CHECK ?=

.PHONY: help lab test test-browser soak lint notebooks bench peers local-model doctor lock clean

help:
	@sed -n 's/^#   //p' Makefile

lab:
	@$(PYTHON) bootstrap.py lab $(ARGS)

test test-browser soak lint bench peers local-model lock:
	@$(PYTHON) bootstrap.py $@ -- $(ARGS)

notebooks:
	@$(PYTHON) bootstrap.py notebooks $(CH) $(if $(CHECK),--check)

doctor clean:
	@$(PYTHON) bootstrap.py $@
