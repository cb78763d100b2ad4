# `make` lists the targets: each has its line of help after `##`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test fast unit lint fmt deny deny-advisories bench conformance-local crds kube test-cluster test-live cluster cluster-down conformance conformance-compare clean

# Tools that Portolan fetches for itself live outside the tree.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/portolan
# Evaluated when a recipe uses it, so that `make` alone fetches nothing.
ENVOY = $$(hack/envoy.sh)
LOG := $(or $(CARGO_TARGET_DIR),target)/test.log

# Test targets with `test = false`, which cargo leaves out unless they are named.
CLUSTER_TESTS := apiserver charts live

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## start Portolan on example manifests with a real Envoy, send requests, print what routed them
	@envoy=$(ENVOY); export PORTOLAN_ENVOY="$$envoy"; \
	cargo build --quiet -p portolan -p portolan-testkit; \
	"$${CARGO_TARGET_DIR:-target}/debug/demo"

test: fast unit ## every test, and their counts

fast: ## the checks that take seconds: format, shell syntax
	@cargo fmt --all --check
	@for script in hack/*.sh .ci/run .ci/cluster conformance/run.sh conformance/compare.sh conformance/live.sh conformance/cluster/cluster conformance/cluster/lib/*.sh; do bash -n "$$script"; done

# The Go tests are compiled while those of Rust run, which wait more than they compute. They judge the programs that `cargo test` built: any
# other selection of packages has other features, and would build all dependencies again.
unit:
	@envoy=$(ENVOY); export PORTOLAN_ENVOY="$$envoy" INSTA_UPDATE=no; mkdir -p "$(dir $(LOG))"; \
	cargo test --quiet --workspace --no-run; \
	hack/go-test.sh compile & \
	cargo test --workspace --no-fail-fast 2>&1 | tee $(LOG) && cargo=0 || cargo=$$?; \
	wait; \
	built="$$(realpath "$${CARGO_TARGET_DIR:-target}")/debug"; \
	PORTOLAN="$$built/portolan" READ_JSON="$$built/examples/read-json" \
		hack/go-test.sh 2>&1 | tee -a $(LOG) && go=0 || go=$$?; \
	hack/count.sh $(LOG); \
	exit $$((cargo | go))

lint: ## clippy with every warning an error; the lints against panics are lifted in test targets
	@cargo clippy --quiet --workspace --lib --bins -- -D warnings
	@cargo clippy --quiet --workspace --tests --benches --examples $(CLUSTER_TESTS:%=--test %) -- -D warnings \
		-A clippy::unwrap_used -A clippy::expect_used -A clippy::panic -A clippy::indexing_slicing \
		-A clippy::print_stdout -A clippy::print_stderr -A missing_docs

fmt: ## format the code
	@cargo fmt --all

deny: $(CACHE)/tools/bin/cargo-deny ## licences, banned crates and sources of the dependencies
	@PATH="$(CACHE)/tools/bin:$$PATH" cargo deny --all-features check bans licenses sources

deny-advisories: $(CACHE)/tools/bin/cargo-deny ## known vulnerabilities of the dependencies (needs the advisory database)
	@PATH="$(CACHE)/tools/bin:$$PATH" cargo deny --all-features check advisories

$(CACHE)/tools/bin/cargo-deny:
	cargo install --locked --root $(CACHE)/tools --version 0.20.2 cargo-deny

bench: ## the table of speed and memory, measured
	@envoy=$(ENVOY); export PORTOLAN_ENVOY="$$envoy"; cargo build --quiet --profile bench -p portolan -p portolan-bench; \
	"$${CARGO_TARGET_DIR:-target}/release/portolan-bench" $(BENCH)

conformance-local: ## the official suite's tests and manifests against `portolan run`, without Kubernetes
	@conformance/standalone/run.sh -v

crds: ## the CRDs of the Gateway API as judge of the reader
	@conformance/crds/run.sh

kube: ## build the programs of Kubernetes that tests against an API server use (once; cold: ten minutes)
	@conformance/cluster/cluster build kube crds

# With the whole workspace's features, as `make test` has built everything.
test-cluster: kube ## tests against a real API server, and of the charts with the real helm
	@cargo test --workspace --test charts --test apiserver

test-live: ## tests of two replicas and their fleets under load, in a cluster of its own (needs root; half an hour)
	@conformance/live.sh

cluster: ## a real Kubernetes of one node on this machine (needs root; built once, cold: twelve minutes)
	@conformance/cluster/cluster build
	@conformance/cluster/cluster up

cluster-down: ## end it
	@conformance/cluster/cluster down

conformance: ## the official suite against Portolan in a cluster: ours, or that of KUBECONFIG (conformance/run.sh --help)
	@conformance/run.sh

conformance-compare: ## the suite against Envoy Gateway and against Portolan, in the same cluster
	@conformance/compare.sh

clean: ## remove what was built (not the cache of tools)
	@cargo clean
