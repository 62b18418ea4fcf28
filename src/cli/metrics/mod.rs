//! `flowctl metrics`: prints the daemon's metrics, or serves them over HTTP for Prometheus, which cannot scrape a Unix socket.
//!
//! The daemon itself never listens on a network: this separate process needs only read access.

mod listen;

use api::client::Client;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use std::net::SocketAddr;
use term::exit::{Exit, Failure};
use term::message;
use term::screen::Screen;
use term::text;
use tokio::net::TcpListener;
use tower::ServiceBuilder;
use tower::limit::ConcurrencyLimitLayer;

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
const SCRAPES_AT_ONCE: usize = 4;

/// Arguments of `flowctl metrics`.
#[derive(clap::Args, Debug)]
pub(crate) struct MetricsArgs {
    /// Serve them for Prometheus at http://ADDRESS/metrics until stopped. Every client that can reach the port can read the names and
    /// numbers of all jobs
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

/// Runs `flowctl metrics`.
pub(crate) async fn metrics(client: &Client, args: &MetricsArgs, screen: &Screen) -> Result<(), Failure> {
    match args.listen {
        None => Ok(screen.print(&text::clean_lines(&client.text("/metrics").await?))?),
        Some(address) => serve(client.clone(), address).await,
    }
}

async fn serve(client: Client, address: SocketAddr) -> Result<(), Failure> {
    let failed = |what: &str, error: std::io::Error| {
        let next = "choose an address and a free port of this machine: `flowctl metrics --listen 127.0.0.1:9713`";
        Failure::new(Exit::Failed, format!("cannot {what} {address}: {error}"), next)
    };
    let listener = TcpListener::bind(address).await.map_err(|error| failed("listen on", error))?;
    let address = listener.local_addr().map_err(|error| failed("listen on", error))?;
    message::print(format_args!("metrics at http://{address}/metrics"));
    let router = Router::new()
        .route("/metrics", get(scrape))
        .route("/", get(async || Html("<title>flowcon</title><a href=\"/metrics\">metrics</a>")))
        .layer(ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(SCRAPES_AT_ONCE)))
        .with_state(client);
    listen::serve(listener, router).await;
    Ok(())
}

/// Fails without a daemon, so that Prometheus reports `up == 0`.
async fn scrape(State(client): State<Client>) -> Response {
    match client.text("/metrics").await {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}
