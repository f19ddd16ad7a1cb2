//===- HostTimes.h - time of one call in PyTorch's operators ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_HOSTTIMES_H
#define ANABRANCH_BINDINGS_HOSTTIMES_H

#include "anabranch/HostCalls.h"

#include <Python.h>
#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace anabranch::python {

/// While it lives, times the calls of PyTorch's operators in this thread. The
/// runtime makes all operator calls of a program on the thread of the caller,
/// so one object on that thread's stack sees one call of one program.
class HostTimes {
public:
  HostTimes() : outer(std::exchange(current, this)) {}
  ~HostTimes() { current = outer; }
  HostTimes(const HostTimes &) = delete;
  HostTimes &operator=(const HostTimes &) = delete;

  /// Calls `listener(seconds since construction, {(operator, user's line):
  /// seconds})`. A new reference to its result, or null with an error set.
  PyObject *tell(PyObject *listener) const;

  /// Adds the time of an operator's call, from construction to destruction, to
  /// the object of this thread, if there is one.
  class Operator {
  public:
    explicit Operator(const HostCall &call) : times(current), call(call) {
      if (times)
        start = Clock::now();
    }
    ~Operator() {
      if (times)
        times->seconds[{call.op, call.location ? call.location : ""}] +=
            since(start);
    }
    Operator(const Operator &) = delete;
    Operator &operator=(const Operator &) = delete;

  private:
    HostTimes *const times;
    const HostCall &call;
    std::chrono::steady_clock::time_point start;
  };

private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  static thread_local HostTimes *current;

  HostTimes *const outer;
  const Clock::time_point begun = Clock::now();
  std::map<std::pair<std::string, std::string>, double> seconds;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_HOSTTIMES_H
