//! `filrouge ui`.

use std::net::SocketAddr;

use clap::Args;

use super::Sources;

#[derive(Debug, Args)]
pub(crate) struct Ui {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// Address to listen on; port 0 selects a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Only print the address, and open no browser
    #[arg(long)]
    pub(crate) no_open: bool,
}
