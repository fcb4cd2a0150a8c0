"""Runs an agent and writes down the wire between it and its client.

    python record.py FOLDER AGENT [ARGUMENT…]

Copies standard input to the agent and the agent's standard output back, as they come. Each run has a
file of its own in FOLDER, named by the agent's process id: one JSON document a line,
{"by": "client" | "agent", "line": …}, in the order in which the lines passed. A line that its writer
did not live to end is not there.
"""

import json
import os
import signal
import subprocess
import sys
import threading

folder, *command = sys.argv[1:]
agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
signal.signal(signal.SIGTERM, lambda *_: agent.terminate())

lock = threading.Lock()
wire = open(os.path.join(folder, f"{agent.pid}.wire"), "w", encoding="utf-8", buffering=1)


def copy(by, source, sink):
    for line in source:
        if line.endswith(b"\n"):
            text = line[:-1].decode("utf-8", "backslashreplace")
            # Written down first: whoever has seen a line finds it here.
            with lock:
                print(json.dumps({"by": by, "line": text}), file=wire)
        try:
            sink.write(line)
            sink.flush()
        except BrokenPipeError:
            break


def copy_to_agent():
    copy("client", sys.stdin.buffer, agent.stdin)
    try:
        agent.stdin.close()
    except BrokenPipeError:
        pass


threading.Thread(target=copy_to_agent, daemon=True).start()
copy("agent", agent.stdout, sys.stdout.buffer)
agent.stdout.close()
code = agent.wait()
# Not sys.exit: the thread may still be reading standard input, and its buffer is locked.
wire.flush()
os._exit(code if code >= 0 else 128 - code)
