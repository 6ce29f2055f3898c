# distutils: language = c++
# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compiled twins of the first pass's fast path and of its loops over tokens.

Optional: ``rlreport.native`` says whether they are there, and everything has a twin in NumPy
that gives the same results and says what they mean. The loops themselves are in the headers;
here their arguments are checked, so that no size is taken on trust.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport NAN, isfinite
from libc.stdint cimport int32_t, int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string as cstring
from libcpp.vector cimport vector

import numpy as np
import orjson


INTERFACE = 1
"""Raised with every change of what this module offers; see ``rlreport.native``."""

include "loops.pxi"
include "buffers.pxi"
include "parser.pxi"
