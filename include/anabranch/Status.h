//===- Status.h - success, or what went wrong -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The runtime throws nothing across its boundary: a function that can fail
// returns a Status or an Expected. A Status of "ok" is a null pointer, so the
// path on which nothing fails pays for a compare only.

#ifndef ANABRANCH_STATUS_H
#define ANABRANCH_STATUS_H

#include <cassert>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#if defined(__GNUC__)
#define ANABRANCH_API __attribute__((visibility("default")))
#else
#define ANABRANCH_API
#endif

namespace anabranch {

/// Says who is at fault. A binding chooses its exception by this code.
enum class StatusCode : int {
  Ok = 0,
  InvalidArgument = 1, ///< an argument's rank, size, stride or number
  TypeError = 2,       ///< an argument's dtype or kind
  IndexError = 3,      ///< a data-dependent index out of its range
  ZeroDivision = 4,    ///< an integer division by zero
  OutOfMemory = 5,
  BadPackage = 6,  ///< the package is truncated, changed, foreign or unsafe
  Unsupported = 7, ///< a sound package that this machine or host cannot run
  HostError = 8,   ///< a call into the host failed; the host knows why
  IoError = 9,     ///< the operating system refused a file
  Internal = 10    ///< a bug of this project
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message) {
    assert(code != StatusCode::Ok && "an error needs a code");
    payload.reset(new (std::nothrow) Payload{code, std::move(message), true});
    if (!payload)
      *this = outOfMemory();
  }

  /// Allocates no memory.
  static Status outOfMemory() {
    static Payload shared{StatusCode::OutOfMemory, "out of memory", false};
    Status status;
    status.payload.reset(&shared);
    return status;
  }

  bool ok() const { return !payload; }
  StatusCode code() const { return payload ? payload->code : StatusCode::Ok; }
  const std::string &message() const {
    static const std::string empty;
    return payload ? payload->message : empty;
  }

private:
  struct Payload {
    StatusCode code;
    std::string message;
    bool allocated;
  };
  struct Deleter {
    void operator()(Payload *p) const {
      if (p->allocated)
        delete p;
    }
  };
  std::unique_ptr<Payload, Deleter> payload;
};

/// A T, or the reason why there is none.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T v) : held(std::move(v)) {}
  Expected(Status s) : failure(std::move(s)) {
    assert(!failure.ok() && "a value is missing");
  }

  bool ok() const { return held.has_value(); }
  explicit operator bool() const { return ok(); }
  T &operator*() { return *held; }
  const T &operator*() const { return *held; }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }
  const Status &status() const { return failure; }
  Status takeStatus() { return std::move(failure); }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace anabranch

#endif // ANABRANCH_STATUS_H
