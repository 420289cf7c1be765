#!/usr/bin/env -S python3 -I -S
"""A driver without load, for tests of suites: it does what the plan's `driver.do` says for a `daemon/level`, and
writes results."""
import json, os, pathlib, signal, sys, time, tomllib
here = pathlib.Path(sys.argv[0]).resolve().parent.parent
arguments = sys.argv[1:]
if arguments[0] == "check":
    print("checked", *arguments[2:])
    sys.exit(4)
named = {key: arguments[arguments.index(key) + 1] for key in ("--plan", "--daemon")}
plan = {"driver": {}} | tomllib.load(open(named["--plan"], "rb"))
for place, argument in enumerate(arguments):
    if argument == "--set":
        path, value = arguments[place + 1].split("=", 1)
        *parents, last = path.split(".")
        table = plan
        for key in parents:
            table = table[int(key)] if isinstance(table, list) else table[key]
        table[last] = tomllib.loads("x = " + value)["x"]
if "--print-plan" in arguments:
    if plan["driver"].get("refuse"):
        print("error: driver.refuse: leave it out", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)
into = pathlib.Path(arguments[arguments.index("--into") + 1])
assert not (into / "result.json").exists() and "--quiet" in arguments
daemon, level = named["--daemon"], plan["level"]
if "--name" in arguments:
    daemon = arguments[arguments.index("--name") + 1]
assert isinstance(level, str)
workers = plan["groups"][0]["clients"]
with open(here / "log", "a") as log:
    log.write(f"{daemon}/{level}/{into.name} {os.getpid()} {os.environ.get('DROVER_ROOT')}\n")
for argument in arguments:
    if argument.startswith("--metrics-addr="):
        (here / "metrics").write_text(argument.split("=")[1])
isolation = ["--driver-cpus", "--daemon-cpus", "--daemon-memory", "--daemon-cpu", "--flamegraph"]
restricted = [f"{key}={arguments[arguments.index(key) + 1]}" for key in isolation if key in arguments]
(here / "isolation").write_text(" ".join(restricted))
what = plan["driver"].get("do", {}).get(f"{daemon}/{level}", "")
if what == "limit":
    print("error: the driver needs 999 open files, but may open 7\n  ulimit -n 999", file=sys.stderr)
    sys.exit(5)
if what == "refuse":
    print("error: driver.x: is wrong today", file=sys.stderr)
    sys.exit(2)
if what == "fail":
    print("error: building it: `make` exited with status 1", file=sys.stderr)
    sys.exit(1)
result = json.load(open(here / "template.json"))
result["daemon"]["name"], result["level"], result["verdict"], result["warnings"] = daemon, level, "VALID", []
result["run_id"] = f"{daemon}-{level}-{into.name}"
result["operations"] = {"started": workers, "ok": workers, "failed": 0, "unfinished": 0, "missed": 0, "peak_active": workers}
result["errors"], result["thresholds"], result["counts"], result["seconds"] = {}, [], {}, []
code = 0
def warn(kind, severity):
    result["warnings"] = [{"kind": kind, "severity": severity, "message": "it began late", "hint": "give it cores"}]
    result["verdict"] = severity.upper()
def write():
    into.mkdir(parents=True, exist_ok=True)
    (into / "result.json.part").write_text(json.dumps(result))
    os.rename(into / "result.json.part", into / "result.json")
def interrupted(*_):
    if what == "deaf":
        (here / "heard").touch()
        return
    warn("Interrupted", "suspect")
    write()
    os._exit(3)
if what in ("hang", "deaf") and (here / "hang").exists():
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    (here / "hanging").write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)
if what == "errors":
    result["operations"].update(ok=workers - 3, failed=3)
    result["errors"], code = {"rejected": 3}, 1
if what == "allowed":
    result["operations"].update(ok=workers - 3, failed=3)
    result["errors"] = {"rejected": 3}
if what == "heavy":
    result["usage"]["daemon"]["rss_peak_kb"] *= 2
if what == "suspect":
    warn("NoisyHost", "suspect")
    code = 3
tries = len(list(into.parent.glob(into.name + ".invalid-*")))
late = what == "late" or what == "late once" and into.name == "1" or what == "late first" and tries == 0
for threshold in plan.get("thresholds", []):
    met = workers <= plan["driver"]["capacity"][daemon]
    result["thresholds"].append({"text": threshold, "measured": f"{workers} us", "met": met})
    code = code or (0 if met else 4)
if late:
    for threshold in result["thresholds"]:
        threshold["met"] = False
    warn("GeneratorLate", "invalid")
    code = 4 if result["thresholds"] else 3
if what == "late and failing":
    warn("GeneratorLate", "invalid")
    result["operations"].update(ok=workers - 3, failed=3)
    result["errors"], code = {"rejected": 3}, 1
try:
    write()
except OSError as error:
    print(f"error: writing {into}/result.json: {error.strerror}", file=sys.stderr)
    sys.exit(1)
sys.exit(code)
