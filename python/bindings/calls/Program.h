//===- Program.h - an executable that Python calls --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The wing `calls` runs programs for PyTorch, NumPy and the replay. Start here.
//
//   Program         an executable that Python calls
//   ArrayCall       runs a program on buffers of Python objects
//   FrozenWeights   notices when the tensors of frozen constants change
//   TensorVersions  numbers the values that watched tensors hold
//   ModuleState     what a replayed call takes from its module
//   GuardedState    the state that passed guards of Dynamo's depend on
//   SameValue       whether a value is what a trace saw
//   CallTimes       counts the latencies of calls
//   TorchProfiler   shows calls in torch.profiler
//   TorchThreads    follows the user's number of threads
//   TorchTeam       lends PyTorch's OpenMP threads to calls

#ifndef ANABRANCH_BINDINGS_PROGRAM_H
#define ANABRANCH_BINDINGS_PROGRAM_H

#include "anabranch/Executable.h"
#include "calls/TensorVersions.h"

#include <Python.h>
#include <memory>
#include <string>
#include <vector>

namespace anabranch::python {

/// An output that is a view of a tensor that the program returns: the result of
/// calling this method of the tensor.
struct OutputView {
  size_t output;
  std::string method; ///< "expand", "permute" or "item"
  std::vector<int64_t> argument;
};

/// While `wanted`, calls of programs in this thread raise an error instead of
/// running. A caller that compiles ahead needs no run.
void compileOnly(bool wanted);
/// False with a Python error set if this thread only compiles.
bool mayRun();

class FrozenWeights;
class HostTimes;

/// How the arguments of a call map to a program's inputs.
struct Calling {
  size_t arguments = 0;        ///< length of the list that a call gets
  std::vector<int32_t> passed; ///< the argument for each input
  std::vector<bool> copied;    ///< per input: made contiguous at each call
  std::vector<OutputView> views;
};

/// An executable that Python calls: a list or tuple of arguments in, a tuple of
/// results out. Any number of threads may call one at once.
class Program {
public:
  Program(std::shared_ptr<const Executable> executable, Calling calling);
  ~Program() { Py_XDECREF(watcher); }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// Returns null with a Python error set on failure. The caller holds the GIL,
  /// which the call releases while the program runs.
  PyObject *call(PyObject *arguments);

  const Executable &get() const { return *executable; }
  const std::shared_ptr<const Executable> &share() const { return executable; }

  /// From now on calls pass only the arguments with these numbers. False if an
  /// input needs another argument.
  bool takeOnly(const std::vector<int32_t> &numbers);

  /// Sets the object that is called after each call whose sizes have no program
  /// of their own, and with `all` after every other call too: with the
  /// arguments, the seconds of the run, and whether the sizes have a program.
  /// None: no object. Needs the GIL.
  void watch(PyObject *watcher, bool all);
  PyObject *watched() const { return watcher; }

  /// Times calls, and tells `listener` (HostTimes::tell) of each, until it
  /// returns false. Needs the GIL.
  void timeCalls(PyObject *listener) {
    timeListener = Ref(Py_NewRef(listener));
  }

  /// Before each call `weights` (a Python object) says whether the tensors that
  /// the frozen weights were copied from have changed. If so, the call first
  /// calls `changed`, which raises or makes this program adopt another one.
  void follow(PyObject *weights, PyObject *changed);
  /// From now on calls run the executable of `other`, a program of the same
  /// graph, whose frozen weights are copies of the tensors `weights`.
  void adopt(const Program &other, PyObject *weights);

private:
  /// The properties of an input that all calls share.
  struct InputPlan {
    int32_t argument;
    int32_t place; ///< of the argument among those that are not left out
    bool scalar;
    bool copied;
    bool watched;
  };
  bool readScalar(PyObject *object, size_t input, InputValue &value) const;
  bool readTensor(PyObject *object, size_t input, InputValue &value,
                  struct CallScratch &scratch) const;
  bool checkCopies(const InputValue *inputs,
                   const struct CallScratch &scratch) const;
  bool writeBack(const struct CallScratch &scratch) const;
  /// Sets the error of a tensor that has no plain memory on the CPU.
  bool viewError(size_t input, PyObject *tensor) const;
  /// Brings the weights up to date with the user's tensors. False with a Python
  /// error set.
  bool followWeights();
  bool tellWatcher(PyObject **items, bool leavesOut, double seconds,
                   bool hasProgram) const;
  /// Tells the listener of a call's times. Its errors never reach the call.
  void tellTimes(const HostTimes &times);
  /// Sets the Python error of a run that failed.
  void refuse(const Status &status, const InputValue *inputs) const;
  bool typeError(size_t input, const char *wanted, PyObject *got) const;

  std::shared_ptr<const Executable> executable;
  size_t argumentCount;
  std::vector<int32_t> kept; ///< numbers of arguments that are not left out
  size_t outputCount;
  std::vector<InputPlan> plans;
  TensorVersions versions; ///< of watched inputs
  std::vector<OutputView> views;
  PyObject *watcher = nullptr;
  bool watchesAll = false;
  std::vector<size_t> written; ///< inputs that the program updates
  Ref weightsObject, weightsChanged;
  Ref timeListener;                       ///< null once it has heard enough
  const FrozenWeights *weights = nullptr; ///< in `weightsObject`
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_PROGRAM_H
