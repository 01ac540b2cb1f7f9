//! The overhead of every request: the verification of its token, and its span.

use std::net::TcpListener;

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data};
use actix_web::{App, HttpResponse, HttpServer};
use auth::{Actor, Keys, Verifier};
use runtime::{Env, Phase};
use testkit::issuer::{Claims, PLATFORM};
use uuid::Uuid;

use super::environment::Environment;
use super::load::{Load, find_wrk};
use super::platform::Platform;
use super::report::{Goal, Rounds, Row, Unit};
use super::{BenchEntry, Effort, selections};
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "edge",
    about: "a token's verification against a bare handler, traces against none",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

const CONNECTIONS: u32 = 32;

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("edge");
    find_wrk(&step).await?;
    let platform = Platform::prepare(environment).await?;
    rows.extend(token(environment, &platform, effort, &step).await?);
    rows.extend(tracing(environment, &platform, effort, &step).await?);
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

/// A server with two handlers, one of which authenticates the caller, and with the endpoint of a
/// collector.
struct Handlers {
    url: String,
    handle: ServerHandle,
}

impl Handlers {
    fn start(environment: &Environment, issuer: &str) -> anyhow::Result<Self> {
        let issuer = issuer.to_owned();
        let mut env = Env::new(move |name| (name == "AUTH_ISSUER").then(|| issuer.clone()));
        let config = auth::Config::read(&mut env);
        let keys = Keys::new(env.finish(config)?)?;
        let verifier = Data::new(Verifier::new(keys, PLATFORM, auth::Revocations::none()));
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let server = HttpServer::new(move || {
            let known = web::scope("/known")
                .wrap(from_fn(auth::authenticate))
                .route("", web::get().to(async |_: Actor| HttpResponse::Ok().body("{}")));
            let bare = web::scope("/bare").route("", web::get().to(async || HttpResponse::Ok().body("{}")));
            let traces = web::resource("/v1/traces").to(async |_: web::Bytes| HttpResponse::Ok());
            App::new().app_data(verifier.clone()).service(known).service(bare).service(traces)
        })
        .workers(2)
        .disable_signals()
        .listen(listener)?
        .run();
        let handle = server.handle();
        environment.process().spawn(Phase::Work, "handlers", |stopping| async move {
            tokio::select! {
                result = server => Ok(result?),
                () = stopping.cancelled() => Ok(()),
            }
        });
        Ok(Self { url, handle })
    }
}

async fn token(
    environment: &Environment,
    platform: &Platform,
    effort: Effort,
    step: &Step,
) -> anyhow::Result<Vec<Row>> {
    let handlers = Handlers::start(environment, platform.issuer.url())?;
    let token = platform.issuer.token(&Claims::user(Uuid::from_u128(rand::random())))?;
    let load = async |path: &str| {
        let arguments = [path.to_owned(), token.clone()];
        let load = Load {
            script: "token",
            arguments: &arguments,
            connections: CONNECTIONS,
            seconds: effort.choose(3, 2),
            rate: None,
        };
        anyhow::Ok(load.run(&handlers.url).await?.per_second)
    };
    let (mut known, mut bare) = (Vec::new(), Vec::new());
    for round in 1..=effort.rounds() {
        step.note(format!("round {round}: with a token"));
        known.push(load("/known").await?);
        step.note(format!("round {round}: the bare handler"));
        bare.push(load("/bare").await?);
    }
    handlers.handle.stop(true).await;
    let ratio = Rounds::ratios(&known, &bare);
    Ok(vec![
        Row::new("A handler that authenticates, requests/s", Unit::PerSecond, Rounds::new(known)),
        Row::new("The bare handler, requests/s", Unit::PerSecond, Rounds::new(bare)),
        Row::new("With a token / bare", Unit::Ratio, ratio).goal(Goal::AtLeast(0.9)),
    ])
}

async fn tracing(
    environment: &Environment,
    platform: &Platform,
    effort: Effort,
    step: &Step,
) -> anyhow::Result<Vec<Row>> {
    const SELECTIONS: i64 = 1_000;
    selections::fill(&environment.connect("selections").await?, SELECTIONS).await?;
    let collector = Handlers::start(environment, platform.issuer.url())?;
    let all = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.clone())];
    let some = [
        all[0].clone(),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio".to_owned()),
        ("OTEL_TRACES_SAMPLER_ARG", "0.1".to_owned()),
    ];
    let off = [("OTEL_SDK_DISABLED", "true".to_owned()), ("LOG", "off".to_owned())];
    let arguments = [SELECTIONS.to_string()];
    let open = async |settings: &[(&'static str, String)]| {
        let service = platform.start("selections", "serve", settings).await?;
        let load = |seconds| Load {
            script: "open",
            arguments: &arguments,
            connections: CONNECTIONS,
            seconds,
            rate: None,
        };
        load(1).run(&service.url).await?;
        let outcome = load(effort.choose(3, 2)).run(&service.url).await?;
        service.stop().await?;
        anyhow::Ok(outcome.per_second)
    };
    let (mut with, mut sampled, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=effort.rounds() {
        step.note(format!("round {round}: every request is traced"));
        with.push(open(&all).await?);
        step.note(format!("round {round}: one of ten is"));
        sampled.push(open(&some).await?);
        step.note(format!("round {round}: none is"));
        without.push(open(&off).await?);
    }
    collector.handle.stop(true).await;
    let of_all = Rounds::ratios(&with, &without);
    let of_some = Rounds::ratios(&sampled, &without);
    Ok(vec![
        Row::new("Every request traced and its span sent: opened/s", Unit::PerSecond, Rounds::new(with)),
        Row::new("One of ten sent: opened/s", Unit::PerSecond, Rounds::new(sampled)),
        Row::new("Neither traces nor logs: opened/s", Unit::PerSecond, Rounds::new(without)),
        Row::new("Every request / none", Unit::Ratio, of_all),
        Row::new("One of ten / none", Unit::Ratio, of_some).goal(Goal::AtLeast(0.93)),
    ])
}
