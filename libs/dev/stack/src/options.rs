//! The options of `cargo dev up`.

use clap::Args;

use devkit::Settings;
use devkit::bus::Kind;
use devkit::postgres::Cluster;

/// Start the platform and keep it running until Ctrl-C
#[derive(Args, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command")]
pub struct Up {
    /// Port of the base URL; 0 selects a free port
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Delete the data of the private database and broker, and the clients of the issuer, first
    #[arg(long)]
    pub fresh: bool,
    /// Start without the demo data
    #[arg(long)]
    pub no_seed: bool,
    /// Broker to start if `KAFKA_BROKERS` is not set
    #[arg(long, value_enum, default_value = "embedded")]
    pub broker: Kind,
    /// Run each service as its own processes, as they are deployed
    #[arg(long)]
    pub processes: bool,
    /// Also run a LiveKit server, from the PATH or built once with Go
    #[arg(long)]
    pub media: bool,
    /// The private cluster that is used if `DATABASE_URL` is not set.
    #[arg(skip = Cluster::STACK)]
    pub cluster: &'static str,
    /// Additional settings of the services.
    #[arg(skip)]
    pub settings: Settings,
}
