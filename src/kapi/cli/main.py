"""The `kapi` command. Commands are thin: they read options, call the library, and print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kapi.base.version import VERSION
from kapi.cli import generate, resources

app = typer.Typer(
    name="kapi",
    help="A Kubernetes-compatible control plane in one process.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """A Kubernetes-compatible control plane in one process."""


@app.command()
def demo(
    data_dir: Annotated[Path, typer.Option(help="Where keys and the database are kept.")] = Path(".kapi"),
    bind: Annotated[str, typer.Option(help="HOST:PORT to listen on; port 0 picks a free one.")] = "127.0.0.1:6443",
    storage: Annotated[str, typer.Option(help="sqlite or memory.")] = "sqlite",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "warning",
    *,
    once: Annotated[bool, typer.Option("--once", help="End when the example is ready.")] = False,
) -> None:
    """Start the control plane with a custom kind, an object of it, and the controller that makes it real."""
    from kapi.cli.demo.run import run

    sys.exit(run(data_dir=data_dir, bind=bind, storage=storage, log_level=log_level, once=once))


@app.command()
def up(
    data_dir: Annotated[Path, typer.Option(help="Where keys and the database are kept.")] = Path(".kapi"),
    bind: Annotated[str, typer.Option(help="HOST:PORT to listen on; port 0 picks a free one.")] = "127.0.0.1:6443",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Where to write the admin's kubeconfig.", show_default="DATA_DIR/admin.kubeconfig"),
    ] = None,
    storage: Annotated[str, typer.Option(help="sqlite or memory.")] = "sqlite",
    socket: Annotated[Path | None, typer.Option(help="Also listen on this unix socket.")] = None,
    history_seconds: Annotated[
        float,
        typer.Option(min=1, help="How long old revisions can be listed and watched from; clients expect 75 or more."),
    ] = 300,
    controllers: Annotated[
        str, typer.Option(help="Which controllers run: * is all, NAME switches one on, -NAME off; by commas.")
    ] = "*",
    event_ttl: Annotated[float, typer.Option(min=1, help="Seconds that Events are kept.")] = 3600,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Start the control plane; stop it with Ctrl-C or SIGTERM."""
    from kapi.cli.up import run

    sys.exit(
        run(
            data_dir=data_dir,
            bind=bind,
            kubeconfig=kubeconfig,
            storage=storage,
            socket=socket,
            history_seconds=history_seconds,
            controllers=controllers,
            event_ttl=event_ttl,
            log_level=log_level,
        )
    )


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(VERSION)


resources.register(app)
app.add_typer(generate.app)


def main() -> None:
    """Entry point."""
    app()


if __name__ == "__main__":
    main()
