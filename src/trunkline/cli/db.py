"""`trunkline db`: the schema in the database."""

from __future__ import annotations

import click

from trunkline.cli.server import server_url, url_option

ROLES_HELP = "create: make trunkline_producer, _consumer and _admin. none: the owner alone. Else existing roles."


@click.group()
def db() -> None:
    """Install, upgrade, verify, remove the schema."""


def _roles_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--roles",
        default="create",
        show_default=True,
        metavar="create|none|producer=ROLE,consumer=ROLE,admin=ROLE",
        help=ROLES_HELP,
    )(command)


@db.command()
@_roles_option
@url_option
def install(roles: str) -> None:
    """Install the schema, or bring it up to date. Safe to repeat, and to run twice at once."""
    from trunkline.client import install as installing

    asked = installing.parse_roles(roles)
    done = installing.install(server_url(), roles=asked)
    click.echo(_version_line(done.before, done.after))
    for kind, name in done.roles.items():
        click.echo(f"role {name} is a {kind}: grant {name} to your user")


@db.command()
@url_option
def upgrade() -> None:
    """Bring an installed schema up to date, with the roles it has."""
    from trunkline.client import install as installing

    done = installing.upgrade(server_url())
    click.echo(_version_line(done.before, done.after))


def _version_line(before: int, after: int) -> str:
    if before == 0:
        return f"installed schema version {after}"
    if before == after:
        return f"schema version {after} was installed before; its functions were made anew"
    return f"brought the schema from version {before} to {after}"


@db.command()
@url_option
def verify() -> None:
    """Compare the installed schema with the one that this version installs."""
    from trunkline.client import install as installing

    click.echo(f"the schema is as it should be: {installing.verify(server_url())} objects")


@db.command()
@_roles_option
def sql(roles: str) -> None:
    """Print the installation as a script for psql, to be read, or run by somebody else."""
    from trunkline.client import install as installing

    click.echo(installing.install_sql(installing.parse_roles(roles)), nl=False)


@db.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@url_option
def uninstall(*, yes: bool) -> None:
    """Remove the schema with every topic and record in it. Roles stay."""
    from trunkline.client import install as installing
    from trunkline.client.target import shown

    url = server_url()
    if not yes:
        click.confirm(f"Remove Trunkline with all topics and records from [{shown(url)}]?", abort=True)
    dropped = installing.uninstall(url)
    click.echo(f"removed the schema with {dropped} segment{'' if dropped == 1 else 's'}")


@db.command("after-restore")
@url_option
def after_restore() -> None:
    """Run this once after the database was restored from a backup.

    It raises the log epoch: positions kept outside the database, in Spark checkpoints above all, are then
    checked closely, and one whose records are gone is refused instead of skipping records in silence.
    """
    from trunkline.client import install as installing

    click.echo(f"the log epoch is now {installing.after_restore(server_url())}")
