"""An ArcadeDB server with its Bolt door, in a process of its own: ``python arcadedb_server.py FOLDER BOLT HTTP PASSWORD``.

It says "ready" when it is, and stops at the end of its input. It keeps its files, its log among them, in FOLDER.
"""

import os
import sys


def main(folder: str, bolt: str, http: str, password: str) -> None:
    os.chdir(folder)
    import arcadedb_embedded

    server = arcadedb_embedded.create_server(
        folder,
        root_password=password,
        config={
            "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
            "host": "127.0.0.1",
            "bolt_port": int(bolt),
            "http_port": int(http),
        },
    )
    server.start()
    server.create_database("graph")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
