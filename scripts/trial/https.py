"""Serves a folder with TLS on a free port of loopback, and prints its address:

    python3 https.py FOLDER CERTIFICATE KEY

A line on stderr for every request. package-test-linux.sh uses it as the place
of a release.
"""

import functools
import http.server
import ssl
import sys

folder, certificate, key = sys.argv[1:]
server = http.server.ThreadingHTTPServer(
    ("127.0.0.1", 0),
    functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder),
)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(f"https://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
