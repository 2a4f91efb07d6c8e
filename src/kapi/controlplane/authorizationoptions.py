"""The options of a control plane that are about authorization, under the names of kube-apiserver's flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kapi.api.go.durations import SECOND, parse_duration

if TYPE_CHECKING:
    from pathlib import Path

MODES: Final = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook")
DEFAULT_MODES: Final = ("Node", "RBAC")


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """The authorizers of a server, in the order in which they are asked."""

    modes: tuple[str, ...] = DEFAULT_MODES
    webhook_config_file: Path | None = None
    """The kubeconfig of the webhook, for the mode Webhook."""
    webhook_authorized_seconds: float = 300.0
    webhook_unauthorized_seconds: float = 30.0
    config_file: Path | None = None
    """An AuthorizationConfiguration, which says all of this in its own way."""


def parse_authorization(
    *,
    modes: str | None = None,
    config_file: Path | None = None,
    webhook_config_file: Path | None = None,
    authorized_ttl: str | None = None,
    unauthorized_ttl: str | None = None,
) -> AuthorizationOptions:
    """Read the flags, None for those that are not given.

    Raises:
        ValueError: they cannot be used; the message says what would be valid.
    """
    if config_file is not None:
        if any(flag is not None for flag in (modes, webhook_config_file, authorized_ttl, unauthorized_ttl)):
            raise ValueError(
                "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* "
                "flags are defined"
            )
        return AuthorizationOptions((), config_file=config_file)
    chosen = _modes(modes) if modes is not None else DEFAULT_MODES
    if ("Webhook" in chosen) is not (webhook_config_file is not None):
        raise ValueError(
            "--authorization-mode Webhook needs --authorization-webhook-config-file FILE, and the file needs the mode"
        )
    return AuthorizationOptions(
        chosen,
        webhook_config_file,
        _seconds("--authorization-webhook-cache-authorized-ttl", authorized_ttl or "5m"),
        _seconds("--authorization-webhook-cache-unauthorized-ttl", unauthorized_ttl or "30s"),
    )


def _modes(text: str) -> tuple[str, ...]:
    chosen = tuple(mode.strip() for mode in text.split(",") if mode.strip())
    known = ", ".join(MODES)
    if not chosen:
        raise ValueError(f"--authorization-mode: at least one mode is needed; the modes are {known}")
    for mode in chosen:
        if mode not in MODES:
            raise ValueError(f'--authorization-mode: "{mode}" is not a valid mode; the modes are {known}')
        if chosen.count(mode) > 1:
            raise ValueError(f'--authorization-mode: "{mode}" is given more than once')
    return chosen


def _seconds(flag: str, text: str) -> float:
    try:
        return parse_duration(text) / SECOND
    except ValueError as error:
        raise ValueError(f"{flag}: {error}; expected a duration such as 5m") from None
