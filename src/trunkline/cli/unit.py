"""A unit of systemd for a worker: text, and how systemd wants it quoted."""

from __future__ import annotations

from pathlib import Path

UNIT = """\
[Unit]
Description=Trunkline worker of group {group}
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={command}
WorkingDirectory={folder}
# TRUNKLINE_URL=postgresql://… stands in this file, which only root and the service's user should be able to read.
EnvironmentFile={environment}
{user}\
Restart=on-failure
RestartSec=2
# SIGTERM: what has begun is finished and committed. A handler has handler_timeout_s for that.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec={stop_s}

NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX

[Install]
WantedBy=multi-user.target
"""
STOP_MARGIN_S = 15


def unit_text(
    *, group: str, command: list[str], folder: Path, environment: Path, user: str | None, handler_timeout_s: float
) -> str:
    """The whole unit."""
    return UNIT.format(
        group=_plain(group),
        command=" ".join(_word(each) for each in command),
        folder=_plain(str(folder)),
        environment=_plain(str(environment)),
        user="" if user is None else f"User={_plain(user)}\n",
        stop_s=round(handler_timeout_s) + STOP_MARGIN_S,
    )


def _plain(text: str) -> str:
    """A whole value: per cent signs begin what systemd fills in."""
    return text.replace("%", "%%")


def _word(text: str) -> str:
    """One word of a command."""
    escaped = _plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return escaped if escaped and all(sign.isalnum() or sign in "/._-:=%@+," for sign in escaped) else f'"{escaped}"'
