"""Build the file system of the image from the Dockerfile without a container engine: `make image`.

Every instruction is carried out in a directory: debootstrap's Debian stands for the base image, and
chroot for the engine. The program then runs in a network namespace of its own, as the image's user,
until its health check passes. It needs root, debootstrap and the package registries.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.services import ROOT

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
NEEDED = ("debootstrap", "chroot", "unshare", "ip")
PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
_CONTINUED = re.compile(r"\\\n\s*")


@dataclass
class Stage:
    """A stage of the Dockerfile: where it lies, and what its instructions have set so far."""

    base: str
    name: str
    place: Path
    user: str = "root"
    folder: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    health: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def run(self, *command: str) -> None:
        """Run a command inside."""
        proc = ("unshare", "--pid", "--fork", f"--mount-proc={self.place}/proc")
        subprocess.run([*proc, *self.command_inside(*command)], check=True)  # noqa: S603

    def command_inside(self, *command: str) -> list[str]:
        """Return a command line that runs a command inside, as the user."""
        given = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **self.environment}
        given |= {
            "PIP_CERT": CERTIFICATES,
            "SSL_CERT_FILE": CERTIFICATES,
            "DEBIAN_FRONTEND": "noninteractive",
        }
        words = [f"{name}={value}" for name, value in given.items()]
        shell = f'cd {self.folder} && exec "$@"'
        user = ("setpriv", "--reuid", self.user, "--regid", self.user, "--init-groups")
        root = ("chroot", str(self.place), "env", "-i", *words, f"HOME=/home/{self.user}")
        return [*root, *(user if self.user != "root" else ()), "sh", "-c", shell, "sh", *command]


def read_instructions(text: str) -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, each with its arguments."""
    lines = _CONTINUED.sub(" ", text).splitlines()
    words = (line.partition(" ") for line in lines if line.strip() and not line.startswith("#"))
    return [(name, rest.strip()) for name, _, rest in words]


def build(home: Path) -> Stage:
    """Run every instruction; return the last stage."""
    debian = make_base(home / "debian")
    stages: list[Stage] = []
    for name, rest in read_instructions((ROOT / "Dockerfile").read_text("utf-8")):
        print(f"{name} {rest[:100]}", flush=True)  # noqa: T201
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            stages.append(Stage(base, alias, home / f"stage{len(stages)}"))
            subprocess.run(["cp", "-a", str(debian), str(stages[-1].place)], check=True)  # noqa: S603, S607
        elif name != "EXPOSE":
            _carry_out(name, rest, stages)
    return stages[-1]


def make_base(place: Path) -> Path:
    """Make Debian 12 with Python, which the official image has under the names python and pip."""
    if not (place / "usr/bin/pip").exists():
        command = [
            "debootstrap",
            "--variant=minbase",
            f"--include={PACKAGES}",
            "bookworm",
            str(place),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        (place / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        next(place.glob("usr/lib/python3*/EXTERNALLY-MANAGED")).unlink()
        shutil.copy(CERTIFICATES, place / CERTIFICATES[1:])
    return place


def _carry_out(name: str, rest: str, stages: list[Stage]) -> None:
    stage = stages[-1]
    match name:
        case "WORKDIR":
            stage.folder = rest
            (stage.place / rest[1:]).mkdir(parents=True, exist_ok=True)
        case "COPY":
            _copy(rest, stages)
        case "RUN":
            stage.run("sh", "-c", rest)
        case "USER":
            stage.user = rest
        case "ENV":
            stage.environment |= dict(word.split("=", 1) for word in rest.split())
        case "HEALTHCHECK":
            stage.health = json.loads(rest.partition("CMD ")[2])
        case "CMD":
            stage.command = json.loads(rest)
        case _:
            message = f"{name} is not known here"
            raise ValueError(message)


def _copy(rest: str, stages: list[Stage]) -> None:
    words, place = rest.split(), ROOT
    if words[0].startswith("--from="):
        wanted = words.pop(0).partition("=")[2]
        place = next(stage.place for stage in stages if stage.name == wanted)
    *sources, target = words
    goal = stages[-1].place / Path(stages[-1].folder, target).as_posix()[1:]
    if target.endswith("/"):
        goal.mkdir(parents=True, exist_ok=True)
    for source in (place / source.lstrip("/") for source in sources):
        if source.is_dir():
            shutil.copytree(source, goal, dirs_exist_ok=True)
        else:
            shutil.copy(source, goal)


_PROGRAM = """
set -eu
ip link set lo up
mount -t proc proc {place}/proc
{migrate}
{collect}
{serve} &
for _ in $(seq 120); do
  if {health} 2>/dev/null; then
    {who}
    {java}
    kill %1; wait %1 || true
    exit 0
  fi
  sleep 1
done
kill %1
exit 1
"""


def try_image(image: Stage) -> int:
    """Run the program in namespaces of its own until it is healthy; return the exit code."""
    key = "only to try the image, and long enough to be taken for a key"
    image.environment |= {"SECRET_KEY": key}
    quote = lambda words: " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)  # noqa: E731
    parts = {
        "migrate": image.command_inside("lakeui", "migrate", "--noinput", "--verbosity", "0"),
        "collect": image.command_inside("lakeui", "collectstatic", "--noinput", "--verbosity", "0"),
        "serve": image.command_inside(*image.command),
        "health": image.command_inside(*image.health),
        "who": image.command_inside("sh", "-c", "test $(id -u) -ne 0 && echo healthy as $(id -un)"),
        "java": image.command_inside("java", "-version"),
    }
    script = _PROGRAM.format(
        place=image.place, **{name: quote(words) for name, words in parts.items()}
    )
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "bash", "-c", script]
    return subprocess.run(command, check=False).returncode  # noqa: S603


def main() -> int:
    """Build and try the image; 0 if it is healthy."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        print(f"Skipped: {', '.join(missing)} not found.")  # noqa: T201
        return 0
    with tempfile.TemporaryDirectory() as home:
        return try_image(build(Path(home)))


if __name__ == "__main__":
    sys.exit(main())
