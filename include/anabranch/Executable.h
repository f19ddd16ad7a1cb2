//===- Executable.h - open a package and run it -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_EXECUTABLE_H
#define ANABRANCH_EXECUTABLE_H

#include "anabranch/HostCalls.h"
#include "anabranch/Machine.h"
#include "anabranch/Status.h"
#include "anabranch/Tensor.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace anabranch {

class Executable;

struct OpenOptions {
  std::string device = "cpu"; ///< or "null": everything but arithmetic
  int threads = 0;            ///< 0: `defaultThreads()`, asked at every call
  /// Compares the files with the hashes in the manifest. A compiler that has
  /// just written the package may turn this off.
  bool checkHashes = true;
  /// The target to run, if the package has several. Empty: the value of
  /// ANABRANCH_TARGET, else the best target that this CPU can run.
  std::string target;
  /// The owners whose packages may be opened. "user": packages of this user or
  /// root that no other user may write. "group": also packages that a group of
  /// this process owns or may write, and links. "anyone": all. Empty: the value
  /// of ANABRANCH_TRUST, else "user".
  std::string trust;
  /// Runs the operators that have no kernel. Must outlive the executable. Null:
  /// a package with such operators is refused.
  HostCalls *hostCalls = nullptr;
  /// The donor: an executable of the same graph for other sizes, whose arenas
  /// and equal weights this one uses. Null: none.
  std::shared_ptr<const Executable> like;
};

/// The value of one input of `run`: a tensor or, where the program takes a
/// Python int, a scalar.
struct InputValue {
  enum class Kind : int8_t { Tensor, Scalar };
  Kind kind = Kind::Tensor;
  TensorView tensor;
  int64_t scalar = 0;
  /// For a tensor: two calls that give one number other than zero promise that
  /// its memory holds the same values. It counts for inputs that are `watched`.
  uint64_t version = 0;
};

/// The value of one output of `run`.
struct OutputValue {
  enum class Kind : int8_t {
    Tensor,  ///< in memory that the OutputAllocator gave
    Alias,   ///< input number `input`, as it is
    Scalar,  ///< the int `scalar`
    None,    ///< Python None
    External ///< the host made it; the caller owns `handle`
  };
  Kind kind = Kind::None;
  int32_t input = -1;
  int64_t scalar = 0;
  void *handle = nullptr;
  /// Tensor: `data` is what the allocator gave; `shape` and `strides` (never
  /// null unless rank is 0) live until `OutputAllocator::allocate` returns.
  /// External: valid as long as `handle`.
  TensorView tensor;
};

/// Gives memory for the outputs of one call.
class ANABRANCH_API OutputAllocator {
public:
  virtual ~OutputAllocator();

  /// Sets `tensor.data` of every output whose kind is Tensor. Each run calls it
  /// once on the calling thread, even if no output is a tensor: after it has
  /// checked all arguments, and before it writes anything. Memory must have the
  /// element type's natural alignment. `outputs` is the array given to `run`.
  virtual Status allocate(OutputValue *outputs, size_t count) = 0;

  /// Sets `output.tensor.data` of output number `index`, whose size the run has
  /// found. A run without HostCalls asks once for each such output, at its end,
  /// on the calling thread; with HostCalls such an output is External. The
  /// runtime copies the result there. This default refuses.
  virtual Status allocateFound(OutputValue &output, size_t index);
};

/// The program's declaration of an input. A dynamic dimension is -1.
struct InputInfo {
  std::string name;
  bool isScalar = false;
  bool mutated = false;
  /// The program keeps what it computes from this input, until a call gives
  /// another version (InputValue).
  bool watched = false;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides; ///< -1: dynamic
  /// The first value of a state that the caller keeps from call to call:
  /// row-major contiguous, valid as long as the executable. Null: the input is
  /// no state.
  const void *initial = nullptr;
};

/// The program's declaration of an output. A dynamic dimension is -1.
struct OutputInfo {
  std::string name; ///< empty where the package has no signature
  OutputValue::Kind kind = OutputValue::Kind::None;
  int32_t input = -1; ///< Alias
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

/// A loaded package. Any number of threads may run it at once.
class ANABRANCH_API Executable {
public:
  virtual ~Executable();

  /// Reads, checks and loads the folder `path`, and runs the program's
  /// `initialize` commands.
  static Expected<std::shared_ptr<const Executable>>
  open(const std::string &path, const OpenOptions &options = {});

  virtual const std::vector<InputInfo> &inputs() const = 0;
  virtual const std::vector<OutputInfo> &outputs() const = 0;

  /// Checks the arguments (an error names the argument, before any write), asks
  /// `allocator` for outputs, runs the program, and returns when it is done.
  /// Mutated inputs are written in place. After an error the outputs' contents
  /// are undefined and no External output is handed over; the next call works.
  virtual Status run(const InputValue *inputs, size_t inputCount,
                     OutputValue *outputs, size_t outputCount,
                     OutputAllocator &allocator) const = 0;

  /// Adds the programs of `other`, a package of the same graph for certain
  /// sizes. A call of these sizes then runs the program of `other`. Calls in
  /// flight are not disturbed. Any thread.
  virtual Status add(const std::shared_ptr<const Executable> &other) const = 0;
  /// Removes the programs of `other`. Calls in flight still finish in them.
  virtual void remove(const Executable &other) const = 0;
  /// Whether a call of these sizes runs a program that was made for them.
  virtual bool hasProgramFor(const InputValue *inputs, size_t count) const = 0;
  /// When a call last chose a program of this package among several, on a clock
  /// that counts such choices. Zero: never.
  virtual uint64_t lastUse() const = 0;
  /// The number of programs that calls choose among.
  virtual size_t programCount() const = 0;

  /// Number of kernels, of kernel launches and of operators that the host runs.
  virtual size_t kernelCount() const = 0;
  virtual size_t launchCount() const = 0;
  virtual size_t hostCallCount() const = 0;
  /// Bytes of idle arenas and of prepared weights.
  virtual size_t cachedBytes() const = 0;
  /// The target whose code runs; empty for a package that has only one.
  virtual const std::string &target() const = 0;
  /// The memory that loading filled with packed and folded weights; null if
  /// there is none.
  virtual const void *preparedWeights() const = 0;
  /// Returns the memory of idle arenas to the system. Calls in flight keep
  /// their arenas.
  virtual void trim() const = 0;
};

/// The version of the runtime, "0.1.0".
ANABRANCH_API const char *version();

} // namespace anabranch

#endif // ANABRANCH_EXECUTABLE_H
