# Short names for common commands. `just` is optional: each recipe shows its commands.

# list the recipes
default:
    @just --list

# start the platform on this machine
up *arguments:
    cargo dev up {{arguments}}

# run a story over HTTP and Kafka
demo:
    cargo dev demo

# test the start page in Chromium
browser *arguments:
    cargo dev browser {{arguments}}

# run the tests with a database and a broker
test *arguments:
    cargo dev test {{arguments}}

# inject faults under load, then check that no event was lost or reordered
chaos *arguments:
    cargo dev chaos {{arguments}}

# install the charts on a real Kubernetes and measure the effect of rollouts and faults
cluster *arguments:
    cargo dev cluster {{arguments}}

# fuzz the APIs (needs Python)
fuzz *arguments:
    cargo dev fuzz {{arguments}}

# measure the hot paths and the limits of this machine
bench *arguments:
    cargo dev bench {{arguments}}

# run the checks of CI
check:
    .ci/run

# format, and apply the fixes of lints
fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty

# generate contracts/ from the code and lint it
contracts *arguments:
    cargo dev contracts {{arguments}}

# check licenses, advisories and sources of dependencies (needs cargo-deny)
deny:
    cargo deny --all-features check
