"""Stands in for ``docker`` and ``docker-compose``: containers are entries of a file.

Run as a program it does what the words say, or fails as Docker does. What it cannot do is an error.
Standard library only: it is started many times.
"""

import json
import sys
from pathlib import Path

PREFIX = "com.docker.compose."


def container(world, name, service, one_off, labels):
    number = 1 + max((c["number"] for c in world["containers"].values()), default=0)
    world["containers"][name] = {
        "number": number,
        "status": "running",
        "labels": {
            f"{PREFIX}project": "p", f"{PREFIX}service": service,
            f"{PREFIX}oneoff": str(one_off), f"{PREFIX}container-number": "1", **labels,
        },
        "restart": "no", "executors": 0, "worker": "", "environment": [],
    }  # fmt: skip


def inspected(world, name):
    one = world["containers"][name]
    running = one["status"] == "running"
    address = world["master"] if "master" in name else f"127.0.9.{one['number']}"
    return {
        "Id": name,
        "Config": {"Labels": one["labels"]},
        "State": {"Status": one["status"]},
        "RestartCount": 0,
        "NetworkSettings": {"Networks": {"p_default": {"IPAddress": address if running else ""}}},
        "Mounts": [{"Destination": "/var/lib/penstock", "Source": world["home"]}],
    }


def compose(world, words):
    if words == ["version"]:
        return "Compose"
    if words[:2] == ["ps", "-q"]:
        services = words[2:]
        return "\n".join(
            name
            for name, c in world["containers"].items()
            if c["labels"][f"{PREFIX}service"] in services
            and c["labels"][f"{PREFIX}oneoff"] == "False"
        )
    if words[:4] == ["run", "-d", "-T", "--no-deps"]:
        options = words[4:-1]
        pairs = [*zip(options[::2], options[1::2], strict=True)]
        name = next(value for key, value in pairs if key == "--name")
        if name in world["containers"]:
            sys.exit(f"Conflict. The container name {name} is already in use")
        labels = dict(value.split("=") for key, value in pairs if key == "--label")
        container(world, name, words[-1], True, labels)
        world["containers"][name]["environment"] = [v for key, v in pairs if key == "-e"]
        return name
    return sys.exit(f"compose {words}: unknown")


def docker(world, words):
    match words:
        case ["compose", *rest]:
            if not world["plugin"]:
                sys.exit("docker: 'compose' is not a docker command.")
            return compose(world, rest)
        case ["version", *_]:
            return "28"
        case ["ps", "-aq", "--filter", "label=com.docker.compose.project=p"]:
            return "\n".join(world["containers"])
        case ["inspect", *names]:
            return json.dumps([inspected(world, name) for name in names])
        case ["top", name, "-eo", "pid,caught,args"]:
            head = "    PID           CAUGHT COMMAND\n  9000000 0000000020000000 java Worker\n"
            one = "9000001 0000000020000000 java CoarseGrainedExecutorBackend --cores 1\n"
            return head + one * world["containers"][name]["executors"]
        case _:
            return change(world, words)


def change(world, words):
    match words:
        case ["update", "--restart", policy, name]:
            world["containers"][name]["restart"] = policy
        case ["start", name]:
            world["containers"][name]["status"] = "running"
        case ["kill", "-s", "PWR", name]:
            one = world["containers"][name]
            if not one["worker"]:
                one["status"] = "exited"  # nobody catches the signal yet
            one["worker"] = one["worker"] and "DECOMMISSIONED"
        case ["rm", "-f", *names]:
            for name in names:
                gone = world["containers"].pop(name)
                world["removed"].append([name, gone["executors"], gone["worker"]])
        case _:
            sys.exit(f"docker {words}: unknown")
    return ""


def main():
    program, *words = sys.argv
    file = Path(program).with_name("world.json")
    world = json.loads(file.read_text())
    if not world["answers"] and words != ["compose", "version"]:
        sys.exit("Cannot connect to the Docker daemon")
    act = compose if program.endswith("-compose") else docker
    said = act(world, words)
    file.write_text(json.dumps(world))
    print(said)


if __name__ == "__main__":
    main()
