//===- CommandVerifier.h - is each command sound by itself? -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_VERIFY_COMMANDVERIFIER_H
#define ANABRANCH_PACKAGE_VERIFY_COMMANDVERIFIER_H

#include "package/verify/Actions.h"
#include "package/verify/Refusals.h"

namespace anabranch::package {

/// The regions that a program's commands may run: those of `all` from number
/// `first` on.
struct Regions {
  const std::vector<std::unique_ptr<ProgramT>> &all;
  size_t first;
};

/// How a command runs a region.
struct RegionCall {
  explicit RegionCall(int region) : region(region) {}

  void pass(const std::vector<std::unique_ptr<ArgumentT>> &list,
            bool sliced = false);
  void take(const std::vector<int> &buffers, bool sliced = false);

  int region;
  bool updates = false; ///< whether it writes the arguments that are `written`
  std::vector<const ArgumentT *> arguments; ///< of its inputs
  std::vector<int> results;                 ///< buffers of its outputs
  /// Of these arguments, or results, the region gets or makes slices.
  std::vector<bool> slicedArguments, slicedResults;
};

/// Checks the commands of a program one by one: indices are in range, kinds and
/// types agree, and no command writes read-only memory.
class CommandVerifier {
public:
  CommandVerifier(const ProgramT &program, Regions regions, Refusals &refusals)
      : program(program), regions(regions), refusals(refusals),
        produced(program.buffers.size(), false) {}

  /// Call it before the commands of `initialize`, and before those of a call.
  void begin(bool initialize) {
    initializing = initialize;
    recorded.assign(static_cast<size_t>(program.events), false);
  }
  void check(const ActionUnion &action, const std::string &where);
  bool isInitializing() const { return initializing; }
  /// Whether a command called the host.
  bool hasCalls() const { return calls; }

private:
  void require(bool holds, const std::string &where, const char *what) {
    refusals.require(holds, where, what);
  }
  bool failed() const { return refusals.any(); }
  void checkLoop(const LoopT &loop, const std::string &where);
  void checkTrips(const LoopT &loop, const std::string &where);
  void checkUnwritten(const std::vector<std::unique_ptr<ArgumentT>> &arguments,
                      const std::string &where);
  void checkCondition(const LoopT &loop, const std::string &where);
  void checkRegion(const RegionCall &call, const std::string &where);
  void checkPassed(const ArgumentT &argument, const InputT &input,
                   bool isSliced, bool mayWrite, const std::string &where);
  void checkSized(int buffer, const std::string &where);
  void checkItem(int buffer, const std::string &where);
  void noteMade(const std::vector<int> &results, const std::string &where);
  void checkPlaced(const std::vector<int> &results, const std::string &where);
  void checkResult(int result, const ProgramT &region, const OutputT &output,
                   bool isSliced, const std::string &where);
  void checkLaunch(const LaunchT &launch, const std::string &where);
  void checkWork(const LaunchT &launch, const std::string &where);
  void checkSuper(const SuperT &super, const std::string &where);
  void checkMembers(const OrderT &order, size_t launches,
                    const std::string &where);
  void checkCall(const CallT &call, const std::string &where);
  void checkTensor(const ArgumentT &argument, const std::string &where);
  void checkView(const ViewT &view, const BufferT &buffer,
                 const std::string &where);
  void checkBranch(const BranchT &branch, const std::string &where);
  void checkPredicate(const ArgumentT &predicate, const std::string &where);
  void checkFlag(int number, const std::string &where);
  void checkArgument(const ArgumentT &argument, int depth,
                     const std::string &where);
  void checkStep(const StepKind &step, const ActionUnion &action,
                 const std::string &where);
  void checkRecord(int event, const std::string &where);
  void checkRead(int buffer, const std::string &where);
  void checkWrite(int buffer, const std::string &where);

  const ProgramT &program;
  const Regions regions;
  Refusals &refusals;
  bool initializing = false;
  bool calls = false;
  std::vector<bool> recorded; ///< by event
  std::vector<bool>
      produced; ///< by buffer: it is the result of an earlier Call
};

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_COMMANDVERIFIER_H
