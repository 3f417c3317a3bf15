"""`svr completion`: what makes a shell complete commands and flags."""

from __future__ import annotations

import click

from svr_async.commands.options import HELP

SHELLS = ("bash", "zsh", "fish")
INSTALLED = ("svr", "svr-eval", "svr-fit")


@click.command(context_settings=HELP)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes SHELL complete svr, svr-eval and svr-fit: bash, zsh or fish.

    \b
      bash   echo 'eval "$(svr completion bash)"' >> ~/.bashrc
      zsh    echo 'eval "$(svr completion zsh)"' >> ~/.zshrc
      fish   svr completion fish > ~/.config/fish/conf.d/svr.fish
    """
    click.echo("\n".join(script_of(shell, name) for name in INSTALLED))


def script_of(shell: str, name: str) -> str:
    """Return the script that completes an installed command: Click's own for the shell."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    return made(click.Command(name), {}, name, variable).source().strip()
