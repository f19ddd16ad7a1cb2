//===- Program.h - an executable that Python calls --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_PROGRAM_H
#define ANABRANCH_BINDINGS_PROGRAM_H

#include "anabranch/Executable.h"
#include "calls/TensorVersions.h"

#include <Python.h>
#include <memory>
#include <string>
#include <vector>

namespace anabranch::python {

/// An output that is a view of what the program gives back: the result of this
/// method of the tensor.
struct OutputView {
  size_t output;
  std::string method; ///< "expand" or "permute"
  std::vector<int64_t> argument;
};

/// Calls of programs in this thread end in an error instead of running, as long
/// as it is wanted: who compiles ahead has no use for a run.
void compileOnly(bool wanted);
/// False with a Python error set where nothing may run.
bool mayRun();

class FrozenWeights;

/// How the arguments of a call map to a program's inputs.
struct Calling {
  size_t arguments = 0;        ///< length of the list that a call gets
  std::vector<int32_t> passed; ///< the argument behind each input
  std::vector<bool> copied;    ///< per input: made contiguous at each call
  std::vector<OutputView> views;
};

/// An executable, called with a list or tuple of arguments, that gives a tuple
/// of results. Any number of threads may call one at once.
class Program {
public:
  Program(std::shared_ptr<const Executable> executable, Calling calling);
  ~Program() { Py_XDECREF(watcher); }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// Needs the GIL and releases it while the program runs. Null with a Python
  /// error set.
  PyObject *call(PyObject *arguments);

  const Executable &get() const { return *executable; }
  const std::shared_ptr<const Executable> &share() const { return executable; }

  /// Calls may leave out the arguments that no input is behind: those that are
  /// not among these numbers. False if an input is behind another one.
  bool takeOnly(const std::vector<int32_t> &numbers);

  /// Told the arguments of each call that ran a program which was not made for
  /// its sizes; null: nobody. Needs the GIL.
  void watch(PyObject *watcher);
  PyObject *watched() const { return watcher; }

  /// Before each call `weights` (a Python object) says whether the tensors
  /// behind the program's frozen weights are as they were; where they are not,
  /// `changed` is called, which raises or has another program adopted.
  void follow(PyObject *weights, PyObject *changed);
  /// Calls run what `other`, a program of the same graph, runs, whose weights
  /// are those of the tensors `weights`.
  void adopt(const Program &other, PyObject *weights);

private:
  /// What is known of an input before any call.
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
  /// The tensor has no plain memory on the CPU.
  bool viewError(size_t input, PyObject *tensor) const;
  /// The weights are those of the user's tensors; else an error is set.
  bool followWeights();
  bool tellWatcher(PyObject **items, bool leavesOut) const;
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
  std::vector<size_t> written; ///< inputs that the program updates
  Ref weightsObject, weightsChanged;
  const FrozenWeights *weights = nullptr; ///< in `weightsObject`
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_PROGRAM_H
