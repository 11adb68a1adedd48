# The few words that a person types. Each installs what it needs (scripts/deps), then lets meson and ninja do the work.
#
#   make            build iterion into build/
#   make demo       build it and run examples/quickstart in a sandbox
#   make check      build with warnings as errors, run every test, end with one line of counts
#   make install    install into PREFIX (default /usr/local)
#
# Builds: build/ (release), build-check/ (tests), build-asan/, build-fuzz/, build-lint/.

PREFIX ?= /usr/local
DESTDIR ?=
MESON ?= meson
PYTHON ?= /usr/bin/python3
FUZZ_SECONDS ?= 60
PROGRAMS = src/cli/iterion src/guest/iterion-guest src/net/iterion-proxy

.DEFAULT_GOAL := all
.PHONY: all demo check check-asan valgrind bench fuzz lint format install clean help

all:
	@scripts/deps build
	@[ -e build/build.ninja ] || { mkdir -p build && $(MESON) setup build --buildtype=release -Doptimization=2 \
		--prefix=$(PREFIX) >build/setup.log; } || { cat build/setup.log; rm -rf build; exit 1; }
	@ninja -C build $(NINJAFLAGS) $(PROGRAMS)

demo:
	@scripts/demo

check:
	@scripts/deps build test
	@tests/run

check-asan:
	@scripts/deps build test
	@tests/run --build build-asan --setup=-Db_sanitize=address,undefined --setup=-Dlink_deps=shared

valgrind:
	@scripts/deps build test valgrind
	@tests/run --valgrind --suite unit

bench: all
	@scripts/deps build bench
	@tests/bench/run

fuzz:
	@scripts/deps build test fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

lint:
	@scripts/deps build lint
	@scripts/lint

format:
	@scripts/deps lint
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all
	@$(MESON) install -C build --no-rebuild --only-changed $(if $(DESTDIR),--destdir $(DESTDIR))

clean:
	@rm -rf build build-check build-asan build-fuzz build-lint build-valgrind

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -8
