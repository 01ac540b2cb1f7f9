# The menu for people. Each entry is one `cargo` command, so that none needs `just`.

# list the menu
default:
    @just --list

# start the platform on this machine
up *arguments:
    cargo dev up {{arguments}}

# play a story over HTTP and Kafka
demo:
    cargo dev demo

# click through the first page in Chromium
browser *arguments:
    cargo dev browser {{arguments}}

# run the tests, with the database and the broker that they need
test *arguments:
    cargo dev test {{arguments}}

# break everything under load, then check that no event was lost or out of order
chaos *arguments:
    cargo dev chaos {{arguments}}

# install the charts on a real Kubernetes, and see what people notice while it rolls and breaks
cluster *arguments:
    cargo dev cluster {{arguments}}

# look for faults that no test knows of (needs Python)
fuzz *arguments:
    cargo dev fuzz {{arguments}}

# measure the hot paths beside the limit of this machine
bench *arguments:
    cargo dev bench {{arguments}}

# what CI checks, here
check:
    .ci/run

# format, and mend what lints can mend
fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty

# write contracts/ anew from the code, and lint it
contracts *arguments:
    cargo dev contracts {{arguments}}

# licenses, advisories, sources of dependencies (needs cargo-deny)
deny:
    cargo deny check
