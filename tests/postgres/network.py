"""A network between stores and their server that fails when, where and how a test says, by the messages in it."""

import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote, urlencode

from treering.stores.postgres.local_server import LocalServer

Side = Literal["server", "client"]
Deed = Literal["cut", "hold", "late", "lose"]
At = Literal["before", "within", "after"]

_TO_SERVER = "B Bind C Close D Describe E Execute H Flush P Parse Q Query S Sync X Terminate"
_TO_CLIENT = (
    "1 ParseComplete 2 BindComplete 3 CloseComplete A NotificationResponse C CommandComplete D DataRow E ErrorResponse "
    "K BackendKeyData N NoticeResponse R Authentication S ParameterStatus T RowDescription Z ReadyForQuery n NoData "
    "t ParameterDescription"
)
_WAITS_AT_MOST_S = 60.0


class Message(NamedTuple):
    """One message: to whom, its name in PostgreSQL's documentation, the number of its connection, its bytes."""

    toward: Side
    name: str
    connection: int
    data: bytes


class Fault:
    """What happens once, at a message.

    Attributes:
        happened: Set when it has happened.
        landed: Set when the server has answered a statement that was late.
        answer: The names of the messages of that answer.
    """

    def __init__(self, toward: Side, name: str, containing: bytes, nth: int, deed: Deed, at: At) -> None:
        self.deed: Deed = deed
        self.happened, self.landed = threading.Event(), threading.Event()
        self.answer: list[str] = []
        self._toward, self._name, self._containing, self._left, self._at = toward, name, containing, nth, at
        self._released = threading.Event()

    def strikes(self, message: Message) -> bool:
        """Whether it happens at this message; count it."""
        if message.toward != self._toward or self._name not in ("", message.name):
            return False
        self._left -= self._containing in message.data
        return self._left == 0 and self._containing in message.data

    def before(self, data: bytes) -> bytes:
        """Return what still arrives of the message."""
        return data[: {"before": 0, "within": len(data) // 2, "after": len(data)}[self._at]]

    def happen(self) -> None:
        """Tell that it has happened; what is held or late waits for `release`."""
        self.happened.set()
        if self.deed in ("hold", "late"):
            assert self._released.wait(_WAITS_AT_MOST_S), "a fault was not released"

    def release(self) -> None:
        """Let pass what is held, or arrive what is late."""
        self._released.set()


class _Cut(Exception):  # nothing failed
    """The connection ends here."""


class _Connection:
    """A client's connection, and the one to the server that was made for it."""

    def __init__(self, number: int, client: socket.socket, server: socket.socket) -> None:
        self.number = number
        self.ends: dict[Side, socket.socket] = {"client": client, "server": server}
        self.late: Fault | None = None
        self.over = False

    def cut(self, *sides: Side) -> None:
        self.over = self.over or not sides
        for side in sides or ("client", "server"):
            with suppress(OSError):  # its other end has closed it
                self.ends[side].shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in self.ends.values():
            end.close()


class Network:
    """A proxy before a server, which a test drives. By default it passes everything on.

    Args:
        server: The server.
        tcp: Whether clients connect by TCP, not by a Unix socket.

    Attributes:
        messages: All messages that came, in order, also those that did not arrive.
        piece: Of how many bytes the pieces are in which messages are sent; None for any.
        delay_s: The seconds that each piece waits.
        refuses: Whether new connections are closed at once.
        unheard: Which notifications are lost while everything else arrives: those that hold these bytes; None for none.
    """

    def __init__(self, server: LocalServer, *, tcp: bool = False) -> None:
        self.messages: list[Message] = []
        self.piece: int | None = None
        self.delay_s = 0.0
        self.refuses = False
        self.unheard: bytes | None = None
        self._target = str(server.folder / ".s.PGSQL.5432")
        self._folder = Path(tempfile.mkdtemp(prefix="net-", dir=server.folder))
        self._connections: list[_Connection] = []
        self._faults: list[Fault] = []
        self._planned: list[Fault] = []
        self._bytes: dict[Side, int] = {}
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        if tcp:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self._at = {"host": "127.0.0.1", "port": str(self._listener.getsockname()[1]), "sslmode": "disable"}
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(self._folder / ".s.PGSQL.5432"))
            self._listener.listen()
            self._at = {"host": str(self._folder), "port": "5432"}
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def url(self, **parameters: str) -> str:
        """Return the address of the server through this network."""
        return "postgresql://postgres@/postgres?" + urlencode(
            {**self._at, "gssencmode": "disable", **parameters}, quote_via=quote
        )

    def fault(
        self,
        toward: Side,
        name: str = "",
        *,
        containing: bytes = b"",
        nth: int = 1,
        deed: Deed = "cut",
        at: At = "before",
    ) -> Fault:
        """Plan what happens once.

        Args:
            toward: To whom the message goes at which it happens.
            name: The name of the message; "" for any.
            containing: What the message contains.
            nth: At which of these messages, counted from 1.
            deed: `cut`: the connection ends. `hold`: the message and all behind it wait for `release`. `late`: the
                client's connection ends, and the statement from this message on arrives after `release`. `lose`: all
                further messages to that side vanish, while the connection stays.
            at: Where in the message that begins.
        """
        fault = Fault(toward, name, containing, nth, deed, at)
        with self._lock:
            self._faults.append(fault)
            self._planned.append(fault)
        return fault

    def cut_after(self, count: int, toward: Side) -> None:
        """Cut the connection that brings that side more than so many bytes, counted over all of them from now on."""
        with self._lock:
            self._bytes[toward] = count

    def cut(self) -> None:
        """Cut all connections."""
        for connection in [*self._connections]:
            connection.cut()

    def silence(self) -> None:
        """Pass on nothing in any connection, old or new, until `resume`; then all that has come meanwhile."""
        self._open.clear()

    def resume(self) -> None:
        """Pass on what comes, and forget what was planned."""
        with self._lock:
            self._faults.clear()
            self._bytes.clear()
        self.piece, self.delay_s, self.refuses, self.unheard = None, 0.0, False, None
        self._open.set()

    def close(self) -> None:
        """Cut everything, and wait for the end of all threads."""
        for fault in self._planned:
            fault.release()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(_WAITS_AT_MOST_S)
        self._listener.close()
        self.resume()
        self.cut()
        for thread in self._threads:
            thread.join(_WAITS_AT_MOST_S)
            assert not thread.is_alive()
        shutil.rmtree(self._folder)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            connection = _Connection(len(self._connections) + 1, client, server)
            try:
                if self.refuses:
                    raise ConnectionRefusedError
                server.connect(self._target)
            except OSError:
                connection.close()
                continue
            self._connections.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: _Connection) -> None:
        back = threading.Thread(target=self._pump, args=(connection, "client"), daemon=True)
        back.start()
        self._pump(connection, "server")
        back.join()
        connection.close()

    def _pump(self, connection: _Connection, toward: Side) -> None:
        """Pass on what comes for one side, until an end or a fault ends the connection."""
        messages = _messages(connection, toward)
        try:
            for message in messages:
                with self._lock:
                    self.messages.append(message)
                    # what a cut connection still received must not use up a fault that is for the next one
                    fault = next((each for each in self._faults if not connection.over and each.strikes(message)), None)
                    if fault is not None:
                        self._faults.remove(fault)
                self._open.wait(_WAITS_AT_MOST_S)
                if fault is None:
                    self._deliver(connection, message)
                else:
                    self._strike(connection, message, messages, fault)
        except (OSError, _Cut):
            pass  # an end has gone, or goes now
        if connection.late is None:
            connection.cut()

    def _strike(self, connection: _Connection, message: Message, rest: Iterator[Message], fault: Fault) -> None:
        if fault.deed == "late":
            statement = [message]
            while statement[-1].name not in ("Sync", "Query"):
                statement.append(next(rest))
            connection.late = fault
            connection.cut("client")
            fault.happen()
            for each in statement:
                connection.ends["server"].sendall(each.data)
            raise _Cut
        if fault.deed == "hold":
            fault.happen()
            self._deliver(connection, message)
            return
        self._deliver(connection, message._replace(data=fault.before(message.data)))
        fault.happen()
        if fault.deed == "cut":
            raise _Cut
        for _ in rest:  # they are lost
            continue

    def _deliver(self, connection: _Connection, message: Message) -> None:
        toward, data = message.toward, message.data
        unheard = self.unheard
        if unheard is not None and message.name == "NotificationResponse" and unheard in data:
            return
        if connection.late is not None:  # its client has gone
            connection.late.answer.append(message.name)
            if message.name == "ReadyForQuery":
                connection.late.landed.set()
                connection.cut("server")
            return
        with self._lock:
            left = self._bytes.get(toward)
            ends = left is not None and len(data) > left
            if left is not None:
                data = data[:left]
                self._bytes[toward] = left - len(data)
            if ends:
                del self._bytes[toward]
        step = self.piece or len(data) or 1
        for start in range(0, len(data), step):
            if self.delay_s:
                time.sleep(self.delay_s)
            connection.ends[toward].sendall(data[start : start + step])
        if ends:
            raise _Cut


@contextmanager
def network(server: LocalServer, *, tcp: bool = False) -> Iterator[Network]:
    """Run a network before a server as long as the block runs."""
    made = Network(server, tcp=tcp)
    try:
        yield made
    finally:
        made.close()


def _messages(connection: _Connection, toward: Side) -> Iterator[Message]:
    """Receive the messages for one side; the first one of a client has no letter."""
    source = connection.ends["client" if toward == "server" else "server"]
    words = (_TO_SERVER if toward == "server" else _TO_CLIENT).split()
    names = dict(zip(words[::2], words[1::2], strict=True))
    buffer, letters = bytearray(), 0 if toward == "server" else 1
    while data := source.recv(65536):
        buffer += data
        while len(buffer) >= letters + 4:
            size = letters + int.from_bytes(buffer[letters : letters + 4], "big")
            if len(buffer) < size:
                break
            letter = buffer[:letters].decode("latin-1")
            name = names.get(letter, letter) if letters else "Startup"
            yield Message(toward, name, connection.number, bytes(buffer[:size]))
            del buffer[:size]
            letters = 1
