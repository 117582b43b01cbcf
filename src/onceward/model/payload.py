"""What a task is asked to do: a frozen, typed struct with a durable name.

    class Greeting(Payload, kind="greeting"):
        name: str

`kind` is written into every row, so it outlives renames of the class. `key()` says what the work is about; with the
kind it is the task's identity. `secret` names fields whose values viewers do not see, wherever a payload is shown:

    class Login(Payload, kind="login", secret=("password",)):
        user: str
        password: str
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from onceward.errors import ConfigError, PayloadError
from onceward.model import codec

if TYPE_CHECKING:
    from typing import dataclass_transform

    @dataclass_transform(frozen_default=True)
    class Payload:
        """The base of all payloads."""

        __kind__: ClassVar[str]

        def __init_subclass__(cls, *, kind: str, secret: Sequence[str] = ()) -> None: ...

        def key(self) -> str:
            """What the work is about. By default all fields."""

else:

    class _PayloadMeta(type(msgspec.Struct)):
        """msgspec's metaclass refuses unknown class keywords; this one takes `kind` and `secret`."""

        def __new__(mcs, name, bases, namespace, *, kind=None, secret=(), **options):
            if "key" in namespace.get("__annotations__", {}):
                raise ConfigError(f"{name}.key is a method of every payload; give the field another name")
            options["frozen"] = True
            cls = super().__new__(mcs, name, bases, namespace, **options)
            if kind is None:
                if bases != (msgspec.Struct,):
                    raise ConfigError(f'{name} needs a durable name: class {name}(Payload, kind="…")')
                return cls
            if not isinstance(kind, str) or not kind or len(kind) > 200 or not kind.isprintable() or {*":@"} & {*kind}:
                raise ConfigError(f"{kind!r} is no kind; take a short printable name without a colon or an @")
            cls.__kind__ = kind
            cls.__secret__ = _checked_secret(cls, secret)
            return cls

        def __init__(cls, name, bases, namespace, *, kind=None, secret=(), **options):
            super().__init__(name, bases, namespace)

    class Payload(msgspec.Struct, metaclass=_PayloadMeta):
        """The base of all payloads."""

        __kind__: ClassVar[str] = ""
        __secret__: ClassVar[frozenset[str]] = frozenset()

        def key(self) -> str:
            """What the work is about. By default all fields."""
            return codec.encoded(self, f"the key of {type(self).__name__}").decode()


def _checked_secret(cls: Any, names: Any) -> frozenset[str]:
    """Return the secret fields of a class by what stands in a stored payload: a name, or the place in an array."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f'secret={names!r}: name the fields of {cls.__name__}, as in secret=("password",)')
    fields = cls.__struct_fields__
    if unknown := sorted({*names} - {*fields}):
        raise ConfigError(f"{cls.__name__} has no field {unknown[0]!r} that could be secret")
    config = cls.__struct_config__
    first = 0 if config.tag is None else 1  # an array begins with its tag
    places = map(str, range(first, first + len(fields)))
    stored = dict(zip(fields, places if config.array_like else cls.__struct_encode_fields__, strict=True))
    return frozenset(stored[name] for name in names)


def secret_fields(payload_type: type[Payload]) -> frozenset[str]:
    """Return the fields that viewers do not see, by what stands in a stored payload: names, or places in an array."""
    return typing.cast("frozenset[str]", payload_type.__secret__)  # type: ignore[attr-defined]


def has_own_key(payload_type: type[Payload]) -> bool:
    """Whether the class says itself what its work is about."""
    return payload_type.key is not Payload.key


def stored_payload(payload: Payload) -> bytes:
    """The stored form of a payload, checked to read back as the same type."""
    data = codec.encoded_plainly(payload)
    return codec.encoded_as_itself(payload, f"the payload {type(payload).__name__}") if data is None else data


def stored_payloads(payloads: Sequence[Payload]) -> list[bytes]:
    """The stored forms of payloads of one class."""
    if len(payloads) == 1:
        return [stored_payload(payloads[0])]
    return codec.encoded_like(payloads, f"the payload {type(payloads[0]).__name__}")


def checked_key(payload: Payload) -> str:
    """The key of a payload, refused where one of the databases could not hold it."""
    key: Any = payload.key()
    if not isinstance(key, str):
        raise PayloadError(f"{type(payload).__name__}.key() returned {type(key).__name__}, it must return text")
    if "\x00" in key:
        raise PayloadError(f"the key of {type(payload).__name__} holds a NUL character; leave it out")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise PayloadError(f"the key of {type(payload).__name__} holds a lone surrogate, which is not text") from error
    return key


def payload_key(payload: Payload) -> str:
    """What a payload says its work is about: its own key, or all its fields."""
    return checked_key(payload) if has_own_key(type(payload)) else stored_payload(payload).decode()


def identity(kind: str, key: str) -> bytes:
    """The 128-bit identity of a task: its kind and its key."""
    return codec.digest128_of(kind, key.encode())


def identities(kind: str, keys: Sequence[bytes]) -> list[bytes]:
    """The identities of tasks of one kind, by their keys as bytes."""
    if len(keys) == 1:
        return [codec.digest128_of(kind, keys[0])]
    return codec.digests128(kind.encode(), keys)


def read_payload(payload_type: type[Payload], data: bytes) -> Payload:
    """The payload that was stored; `msgspec.ValidationError` where the class has changed under it."""
    return typing.cast(Payload, codec.decoder(payload_type)(data))
