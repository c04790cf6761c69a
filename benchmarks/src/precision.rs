#[derive(clap::Args)]
pub(crate) struct Options {}
pub(crate) fn run(_: &Options) -> anyhow::Result<u64> {
    Ok(0)
}
