"""
Shifts the wall clock of a Python process by CLOCK_SKEW seconds, for a test whose machines have different times.

The interpreter imports it before any other module if this directory is on PYTHONPATH. Monotonic clocks are left alone,
as on a machine whose time was set wrong.
"""

import datetime as dt
import os
import time

_SKEW = float(os.environ["CLOCK_SKEW"])
_time, _time_ns, _datetime = time.time, time.time_ns, dt.datetime


class _IsDatetime(type(_datetime)):
    """A metaclass that makes every datetime an instance of the shifted class too."""

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
