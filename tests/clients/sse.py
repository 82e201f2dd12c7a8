"""Follows a stream with an independent client (httpx-sse), lets it be cut, takes it up again, and compares.

    sse.py URL TOKEN

It makes a thread of the agent `helper`: give it a server with a store of its own.
"""

import sys

import httpx
from httpx_sse import connect_sse

URL, TOKEN = sys.argv[1].rstrip("/"), sys.argv[2]
THREAD = f"{URL}/v1/agents/helper/threads/sse"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def submit(client, key):
    body = {"message": "Tell me something."}
    answer = client.post(f"{THREAD}/submissions", json=body, headers={**BEARER, "Idempotency-Key": key})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def follow(client, url, headers, enough):
    """Events of a stream until `enough` says so, or it ends."""
    seen = []
    with connect_sse(client, "GET", url, headers=headers) as source:
        source.response.raise_for_status()
        for event in source.iter_sse():
            seen.append((event.id, event.event, event.data))
            if enough(event):
                break
    return seen


def main():
    with httpx.Client(timeout=60) as client:
        first = submit(client, "first")
        whole = follow(client, f"{THREAD}/stream?submission={first}", BEARER, lambda _: False)
        assert whole[-1][1] == "settled", whole
        numbers = [int(number) for number, _, _ in whole]
        assert numbers == sorted(set(numbers)), numbers

        # From the middle: exactly the rest.
        middle = len(whole) // 2
        rest = follow(client, f"{THREAD}/stream?submission={first}", {**BEARER, "Last-Event-ID": whole[middle][0]}, lambda _: False)
        assert rest == whole[middle + 1 :], (rest, whole)

        # A second turn goes on counting; this viewer has no header to send, and comes with a token.
        token = client.post(f"{THREAD}/stream-token", headers=BEARER).json()
        second = submit(client, "second")
        live = follow(client, f"{URL}{token['path']}&after={numbers[-1]}", {}, lambda e: e.event == "settled")
        assert int(live[0][0]) == numbers[-1] + 1, (live[0], numbers[-1])
        again = follow(client, f"{THREAD}/stream?after={numbers[-1]}", BEARER, lambda e: e.event == "settled")
        assert live == again
        assert second in live[-1][2]

        # Nobody else's, and nothing that never was.
        refused = client.get(f"{THREAD}/stream?after={10**9}", headers=BEARER)
        assert refused.status_code == 422, refused.text
        refused = client.get(f"{THREAD}/stream", headers={"Authorization": "Bearer no-such-token-anywhere"})
        assert refused.status_code == 401 and refused.headers["www-authenticate"], refused.text
    print(f"{len(whole) + len(live)} events, the same live and later")


main()
