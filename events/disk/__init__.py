"""Tools for files that know no store: the calls of a disk, and what is built from them.

- `disk`: the file system calls that treering makes, which tests and simulations replace, and which disks may block
- `atomic_files`: files that are replaced as a whole
- `packed`: compressed files, read as if they were not
- `disk_errors`: what an error of the disk means, and what to do about it
- `notices`: the notifications of changed files, which all watches share

Nothing here knows what a log or a session is. Arrows point from the stores to this package.
"""

from .disk import DIRECTORY_MODE as DIRECTORY_MODE
from .disk import FILE_MODE as FILE_MODE
from .disk import Disk as Disk
from .disk import FileStat as FileStat
from .disk import OsDisk as OsDisk
from .disk import flush_file as flush_file
from .disk import is_system_disk as is_system_disk
from .disk import opened as opened
from .disk import write_all as write_all
