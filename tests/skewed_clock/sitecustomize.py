"""
Shifts the wall clock of a Python process by CLOCK_SKEW seconds, for a test whose machines disagree about the time.

Found by the interpreter before anything else is imported, where this directory is on PYTHONPATH. Clocks that only
measure durations are left alone, as they are on a machine whose time was set wrong.
"""

import datetime as dt
import os
import time

_SKEW = float(os.environ["CLOCK_SKEW"])
_time, _time_ns, _datetime = time.time, time.time_ns, dt.datetime


class _IsDatetime(type(_datetime)):
    """What is a datetime to others is one to those who ask for the shifted class too."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, _datetime)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, _datetime)


class _Skewed(_datetime, metaclass=_IsDatetime):
    def __new__(cls, *args, **kwargs):
        return _datetime.__new__(_datetime, *args, **kwargs)

    @classmethod
    def now(cls, tz=None):
        return _datetime.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return _datetime.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls):
        return cls.now()


time.time = lambda: _time() + _SKEW
time.time_ns = lambda: _time_ns() + int(_SKEW * 1e9)
dt.datetime = _Skewed
