"""Custom kinds as people write them, and instances of them, for the tests of definitions made from classes."""

# ruff: noqa: RUF012 - msgspec copies empty defaults

import datetime as dt
import enum
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Generic, Literal, NewType, TypeVar

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from kapi.api.builtin.core_v1 import ConfigMap, Container, PodSpec, PodTemplateSpec
from kapi.api.builtin.meta_v1 import Condition, ObjectMeta
from kapi.api.crd import (
    Column,
    CustomResource,
    Default,
    Embedded,
    Format,
    Int32,
    IntOrString,
    ListMap,
    ListType,
    MapType,
    Model,
    Nullable,
    PreserveUnknown,
    Required,
    Rule,
    Scale,
    resource,
)

T = TypeVar("T")
Percent = NewType("Percent", int)
Name = Annotated[str, Meta(pattern="^[a-z]+$", min_length=1, max_length=8)]


class Phase(enum.StrEnum):
    """Where it stands."""

    WAITING = "Waiting"
    RUNNING = "Running"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


# -- a kind with everything -------------------------------------------------------------------------------------------


class Circle(Model, tag="circle", tag_field="shape"):
    """A round one."""

    radius: Annotated[int, Meta(ge=1)]
    color: str = "red"
    RULES = (Rule("self.radius < 100", message="circles are small"),)


class Square(Model, tag="square", tag_field="shape"):
    side: float
    corners: Annotated[int, Meta(ge=0)] = 4
    color: str = "red"


class Range(Model, Generic[T]):
    """From here to there."""

    low: T
    high: T | None = None


class Retry(Model):
    attempts: Annotated[Int32, Meta(ge=0)] = 3
    backoff: str = "1s"


class Policy(Model):
    retry: Retry = msgspec.field(default_factory=Retry)
    mode: Literal["Fast", "Safe"] = "Safe"


class Port(Model, frozen=True):
    name: Name
    number: Annotated[Int32, Meta(ge=1, le=65535)]


class Named(Model):
    """What has a title."""

    title: Annotated[str, Meta(title="The title")]
    """How it is called."""


class KioskSpec(Named, kw_only=True):
    """What is wanted.

    In two paragraphs,
    the second over two lines.
    """

    replicas: Annotated[Int32, Meta(ge=0, le=100)] = 1
    """How many there are."""
    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    step: Annotated[int, Meta(multiple_of=5)] = 10
    percent: Percent = Percent(50)
    size: IntOrString = "10%"
    memory: Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern="^[0-9]+Mi$")] = "64Mi"
    number: int | float = 0.25
    phase: Phase = Phase.WAITING
    level: Level | None = None
    mode: Literal["a", "b"] | None = None
    shape: Circle | Square | None = None
    window: Range[int] | None = None
    policy: Policy = msgspec.field(default_factory=Policy)
    ports: Annotated[list[Port], ListMap("name"), Meta(max_length=4)] = []
    open_ports: frozenset[Port] = frozenset()
    tags: set[Name] = set()
    words: Annotated[list[str], ListType("set")] = []
    corner: tuple[int, int] | None = None
    labels: dict[Name, str] = {}
    grid: list[list[int]] = []
    sequence: Sequence[str] = ()
    mapping: Mapping[str, int | None] = {}
    anything: Any = None
    payload: dict[str, Any] = {}
    key: Annotated[bytes, Meta(max_length=5)] | None = None
    since: Annotated[dt.datetime, Meta(tz=True)] | None = None
    day: dt.date | None = None
    uid: uuid.UUID | None = None
    address: Annotated[str, Format("ipv4")] | None = None
    note: str | None
    comment: str | None = "none"
    maybe: str | UnsetType | None = UNSET
    hint: Annotated[str | None, Nullable()] = None
    group: Annotated[str, Default("")] = ""
    zone: Annotated[str, Required()] = "here"
    loose: Annotated[Retry | None, PreserveUnknown()] = None
    selector: Annotated[Range[str] | None, MapType("atomic")] = None
    template: PodTemplateSpec | None = None
    config: ConfigMap | None = None
    raw: Annotated[dict[str, Any] | None, Embedded()] = None
    RULES = (Rule("self.replicas <= 50 || self.mode == 'a'", message="only a is large", field_path=".replicas"),)
    SCHEMA: ClassVar = {"minProperties": 1}


class KioskStatus(Model):
    conditions: Annotated[list[Condition], ListMap("type")] = []
    replicas: Int32 = 0
    selector: str = ""


@resource(
    "shops.example.com/v1",
    short_names=("ki",),
    categories=("all", "shops"),
    columns=(
        Column("Phase", ".spec.phase", description="Where it stands."),
        Column("Age", ".metadata.creationTimestamp", type="date", priority=1),
    ),
    rules=(Rule("self.metadata.name.size() < 60"),),
    selectable_fields=(".spec.title",),
    scale=Scale(selector=".status.selector"),
)
class Kiosk(CustomResource):
    """A small shop."""

    spec: KioskSpec
    status: KioskStatus | None = None


# -- one kind at three versions ---------------------------------------------------------------------------------------


class LampSpecV1(Model):
    watts: int


@resource("homes.example.com/v1", kind="Lamp", scope="Cluster")
class LampV1(CustomResource):
    spec: LampSpecV1


class LampSpecV1Beta1(Model):
    power: str


@resource("homes.example.com/v1beta1", kind="Lamp", scope="Cluster", storage=False, deprecation_warning="use v1")
class LampV1Beta1(CustomResource):
    spec: LampSpecV1Beta1


@resource("homes.example.com/v1alpha1", kind="Lamp", scope="Cluster", storage=False, served=False)
class LampV1Alpha1(CustomResource):
    data: dict[str, str] = {}


# -- instances --------------------------------------------------------------------------------------------------------

TEXT = st.text('abc ü"\n', max_size=4)
NAMES = st.text("abc", min_size=1, max_size=4)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-3, 3)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), SMALL, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXT, inner, max_size=2)),
    max_leaves=4,
)
PORTS = st.builds(Port, name=NAMES, number=st.integers(1, 65535))
RETRIES = st.builds(Retry, attempts=st.integers(0, 5), backoff=TEXT)
SHAPES = st.one_of(
    st.builds(Circle, radius=st.integers(1, 99), color=TEXT),
    st.builds(Square, side=FLOATS, corners=st.integers(0, 9), color=TEXT),
)
TEMPLATES = st.builds(
    PodTemplateSpec,
    metadata=st.builds(
        ObjectMeta, labels=st.dictionaries(NAMES, NAMES, max_size=1) | st.none(), generation=st.none() | SMALL
    ),
    spec=st.builds(PodSpec, containers=st.lists(st.builds(Container, name=NAMES, image=NAMES), min_size=1, max_size=2)),
)
CONFIGS = st.builds(
    ConfigMap, metadata=st.builds(ObjectMeta, name=NAMES), data=st.dictionaries(NAMES, TEXT, max_size=1)
)
RAW = st.fixed_dictionaries({"apiVersion": st.just("v1"), "kind": st.just("Thing"), "spec": JSON})
SPECS = st.builds(
    KioskSpec,
    title=TEXT,
    replicas=st.integers(0, 50),
    ratio=st.sampled_from((0.25, 0.5, 0.75)),
    step=SMALL.map(lambda number: number * 5),
    percent=INTEGERS.map(Percent),
    size=INTEGERS | TEXT,
    memory=st.integers(0, 9) | st.just("128Mi"),
    number=INTEGERS | FLOATS,
    phase=st.sampled_from(Phase),
    level=st.none() | st.sampled_from(Level),
    mode=st.sampled_from(("a", "b")),
    shape=st.none() | SHAPES,
    window=st.none() | st.builds(Range, low=SMALL, high=st.none() | SMALL),
    policy=st.builds(Policy, retry=RETRIES, mode=st.sampled_from(("Fast", "Safe"))),
    ports=st.lists(PORTS, max_size=3, unique_by=lambda port: port.name),
    open_ports=st.frozensets(PORTS, max_size=2),
    tags=st.sets(NAMES, max_size=2),
    words=st.lists(TEXT, max_size=2, unique=True),
    corner=st.none() | st.tuples(SMALL, SMALL),
    labels=st.dictionaries(NAMES, TEXT, max_size=2),
    grid=st.lists(st.lists(SMALL, max_size=2), max_size=2),
    sequence=st.lists(TEXT, min_size=1, max_size=2),
    mapping=st.dictionaries(TEXT, st.none() | SMALL, max_size=2),
    anything=JSON,
    payload=st.dictionaries(TEXT, JSON, max_size=2),
    key=st.none() | st.binary(min_size=1, max_size=5),
    since=st.none() | st.datetimes(dt.datetime(1, 1, 3), timezones=st.just(dt.UTC)),  # noqa: DTZ001
    day=st.none() | st.dates(),
    uid=st.none() | st.uuids(),
    address=st.none() | st.ip_addresses(v=4).map(str),
    note=st.none() | TEXT,
    comment=st.none() | TEXT,
    maybe=st.just(UNSET) | st.none() | TEXT,
    hint=st.none() | TEXT,
    group=TEXT,
    zone=TEXT,
    loose=st.none() | RETRIES,
    selector=st.none() | st.builds(Range, low=TEXT, high=st.none() | TEXT),
    template=st.none() | TEMPLATES,
    config=st.none() | CONFIGS,
    raw=st.none() | RAW,
)
KIOSKS = st.builds(
    Kiosk,
    metadata=st.builds(ObjectMeta, name=NAMES, namespace=st.just("default")),
    spec=SPECS,
    status=st.none()
    | st.builds(KioskStatus, conditions=st.just([Condition(type="Ready", status="True")]), replicas=SMALL),
)
