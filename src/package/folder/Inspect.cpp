//===- Inspect.cpp - a package in words -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Inspect.h"

#include "package/folder/Reader.h"
#include "package/verify/Actions.h"
#include "package/verify/SerialOrder.h"

#include <sstream>
#include <utility>

namespace anabranch {

using namespace package;

namespace {

std::string text(const Size &size) {
  return size.slot() < 0 ? std::to_string(size.value())
                         : "s" + std::to_string(size.slot());
}

std::string text(const std::vector<Size> &sizes) {
  std::string list;
  for (const Size &size : sizes)
    list += (list.empty() ? "" : ", ") + text(size);
  return "[" + list + "]";
}

std::string text(const std::unique_ptr<Size> &size) {
  return size ? text(*size) : "0";
}

/// A sum of terms such as "2*#0*#1 + 5", where #n is the launch's size n.
std::string text(const std::vector<std::unique_ptr<TermT>> &terms) {
  std::ostringstream sum;
  for (const auto &term : terms) {
    sum << (term == terms.front() ? "" : " + ") << term->factor;
    for (int size : term->sizes)
      sum << "*#" << size;
  }
  return terms.empty() ? "0" : sum.str();
}

std::string type(package::DType dtype, const std::vector<Size> &shape,
                 const std::vector<Size> &strides) {
  std::string result = name(static_cast<anabranch::DType>(dtype));
  result += text(shape);
  if (!strides.empty())
    result += " strides " + text(strides);
  return result;
}

/// Prints one program. A buffer is described where a command first uses it: %3.
class Printer {
public:
  explicit Printer(const ProgramT &program) : p(program) {}

  std::string print(const std::string &title) {
    out << title << " " << p.name << "\n";
    out << "  arena " << text(p.arena_bytes) << " bytes, persistent "
        << text(p.persistent_bytes) << " bytes, " << p.slots << " sizes";
    if (!p.sizes_function.empty())
      out << " by " << p.sizes_function;
    out << "\n";
    printInputs();
    printBuffers();
    printKernels();
    printStreams("initialize", p.initialize);
    printStreams("stream", p.streams);
    printOutputs();
    return out.str();
  }

private:
  void printInputs() {
    for (const SlotSource &s : p.slot_sources)
      out << "  s" << s.slot() << " = dimension " << s.dim() << " of input "
          << s.input() << "\n";
    for (const SlotLimit &l : p.slot_limits)
      out << "  s" << l.slot() << " from " << l.min() << " to " << l.max()
          << "\n";
    for (size_t i = 0; i < p.inputs.size(); ++i) {
      const InputT &input = *p.inputs[i];
      out << "  input " << i << " " << input.name << ": ";
      if (input.is_scalar)
        out << "int"
            << (input.scalar_slot < 0
                    ? ""
                    : " s" + std::to_string(input.scalar_slot));
      else
        out << type(input.dtype, input.shape, input.strides)
            << (input.mutated ? " mutated" : "");
      out << "\n";
    }
  }

  void printBuffers() {
    for (size_t i = 0; i < p.buffers.size(); ++i) {
      const BufferT &b = *p.buffers[i];
      out << "  %" << i << " = " << EnumNameBufferKind(b.kind);
      if (b.kind == BufferKind::Input || b.kind == BufferKind::Output)
        out << " " << b.index;
      else if (b.kind == BufferKind::Constant)
        out << " '" << b.name << "'";
      else if (b.kind != BufferKind::External)
        out << " at " << text(b.offset) << ", " << text(b.bytes) << " bytes";
      out << ": " << type(b.dtype, b.shape, b.strides) << "\n";
    }
  }

  void printKernels() {
    for (const auto &kernel : p.kernels)
      if (kernel->work)
        out << "  kernel " << kernel->name << ": " << text(kernel->work->flops)
            << " FLOP, " << text(kernel->work->bytes) << " bytes\n";
  }

  void printStreams(const char *title, const Streams &streams) {
    for (size_t s = 0; s < streams.size(); ++s) {
      out << "  " << title << " " << s;
      if (!streams[s]->name.empty())
        out << " " << streams[s]->name;
      out << " (priority " << streams[s]->priority << ")\n";
      for (const auto &command : streams[s]->commands) {
        out << "    ";
        printAction(command->action);
        if (command->location >= 0)
          printLocation(*p.locations[command->location]);
        if (const SuperT *super = command->action.AsSuper())
          printMembers(*super);
        out << "\n";
      }
    }
  }

  void printAction(const ActionUnion &action) {
    if (const LaunchT *launch = action.AsLaunch())
      printLaunch(*launch);
    else if (const CallT *call = action.AsCall())
      printCall(*call);
    else if (const SuperT *super = action.AsSuper())
      printSuper(*super);
    else if (const BranchT *branch = action.AsBranch())
      printBranch(*branch);
    else if (const LoopT *loop = action.AsLoop())
      printLoop(*loop);
    else if (const StepKind *step = stepKindOf(action))
      printStep(*step, action);
    else if (const RecordT *record = action.AsRecord())
      out << "record " << record->event;
    else if (const WaitT *wait = action.AsWait())
      out << "wait " << wait->event;
  }

  /// "copy %1 -> %2"
  void printStep(const StepKind &step, const ActionUnion &action) {
    std::string read, written;
    step.visit(action, [&](int buffer, bool writes) {
      (writes ? written : read) += " %" + std::to_string(buffer);
    });
    out << step.name << read << " ->" << written;
  }

  void printLaunch(const LaunchT &launch) {
    out << "launch " << p.kernels[launch.kernel]->name << "(";
    for (int i = 0; i < static_cast<int>(launch.buffers.size()); ++i)
      out << (i == 0                    ? ""
              : i == launch.input_count ? ") -> ("
                                        : ", ")
          << "%" << launch.buffers[i];
    out << ")";
    if (!launch.sizes.empty())
      out << " sizes " << text(launch.sizes);
  }

  void printSuper(const SuperT &super) {
    bool isSymbolic = false;
    for (const auto &launch : super.launches)
      for (const Size &size : launch->sizes)
        isSymbolic |= size.slot() >= 0;
    out << "super '" << super.name << "', streams " << super.streams
        << (isSymbolic ? ", of sizes that calls bind" : "");
  }

  void printMembers(const SuperT &super) {
    for (size_t i = 0; i < super.launches.size(); ++i) {
      out << "\n      ";
      printLaunch(*super.launches[i]);
      if (super.locations[i] >= 0)
        printLocation(*p.locations[super.locations[i]]);
    }
    for (const auto &order : super.orders) {
      printNumbers("\n      ", order->before);
      printNumbers(" before ", order->after);
    }
  }

  void printNumbers(const char *head, const std::vector<int> &numbers) {
    for (int number : numbers)
      out << std::exchange(head, ", ") << number;
  }

  void printCall(const CallT &call) {
    out << "call " << call.op << (call.overload.empty() ? "" : ".")
        << call.overload << "(";
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      out << (i ? ", " : "") << call.arguments[i]->name << "=";
      printArgument(*call.arguments[i]);
    }
    out << ") -> (";
    for (size_t i = 0; i < call.results.size(); ++i)
      out << (i ? ", " : "")
          << (call.results[i] < 0 ? "_"
                                  : "%" + std::to_string(call.results[i]));
    out << ")";
  }

  /// "branch %1 ? region 1 : region 0 (%0, s2) -> (%3)", or "call region 0 (%0,
  /// item %2) -> (%3)"
  void printBranch(const BranchT &branch) {
    out << (branch.predicate ? "branch " : "call ");
    if (branch.predicate) {
      printArgument(*branch.predicate);
      out << " ? region " << branch.regions[1] << " : ";
    }
    out << "region " << branch.regions[0];
    printList(" (", branch.arguments);
    printList(") -> (", branch.results);
    out << ")";
  }

  /// "while region 0 (%5): region 1 carried (%0) scanned () arguments (s2) ->
  /// (%3) stacked () spare (%4)", or "s3 times: region 1 ..."
  void printLoop(const LoopT &loop) {
    if (loop.condition >= 0)
      out << "while region " << loop.condition << " (%" << loop.predicate
          << ")";
    else
      out << text(loop.trips) << " times";
    out << ": region " << loop.body;
    printList(" carried (", loop.carried);
    printList(") scanned (", loop.scanned);
    printList(") arguments (", loop.arguments);
    printList(") -> (", loop.results);
    printList(") stacked (", loop.stacked);
    printList(") spare (", loop.spare);
    out << ")";
  }

  void printList(const char *head,
                 const std::vector<std::unique_ptr<ArgumentT>> &arguments) {
    out << head;
    for (size_t i = 0; i < arguments.size(); ++i) {
      out << (i ? ", " : "");
      printArgument(*arguments[i]);
    }
  }

  void printList(const char *head, const std::vector<int> &buffers) {
    out << head;
    for (size_t i = 0; i < buffers.size(); ++i)
      out << (i ? ", %" : "%") << buffers[i];
  }

  void printArgument(const ArgumentT &a) {
    switch (a.kind) {
    case ArgKind::Tensor:
      out << (a.written ? "&%" : "%") << a.buffer;
      if (a.view)
        out << text(a.view->shape) << " strides " << text(a.view->strides)
            << " at " << text(a.view->offset);
      break;
    case ArgKind::Item:
      out << "item %" << a.buffer;
      break;
    case ArgKind::Int:
    case ArgKind::Layout:
    case ArgKind::MemoryFormat:
      out << text(a.int_value);
      break;
    case ArgKind::Float:
      if (a.int_value)
        out << "float(" << text(a.int_value) << ")";
      else
        out << a.float_value;
      break;
    case ArgKind::Bool:
      out << (a.bool_value ? "true" : "false");
      break;
    case ArgKind::String:
    case ArgKind::Device:
      out << "'" << a.string_value << "'";
      break;
    case ArgKind::DType:
      out << name(static_cast<anabranch::DType>(a.dtype_value));
      break;
    case ArgKind::List:
      out << "[";
      for (size_t i = 0; i < a.items.size(); ++i) {
        out << (i ? ", " : "");
        printArgument(*a.items[i]);
      }
      out << "]";
      break;
    case ArgKind::None:
      out << "none";
      break;
    }
  }

  void printLocation(const LocationT &l) {
    out << "  ; " << l.operators;
    if (!l.file.empty())
      out << " at " << l.file << ":" << l.line;
  }

  void printOutputs() {
    for (size_t i = 0; i < p.outputs.size(); ++i) {
      const OutputT &o = *p.outputs[i];
      out << "  output " << i << ": ";
      if (o.kind == OutputKind::Tensor || o.kind == OutputKind::External)
        out << "%" << o.buffer;
      else if (o.kind == OutputKind::Alias)
        out << "input " << o.index;
      else if (o.kind == OutputKind::Scalar)
        out << text(o.scalar);
      else
        out << "none";
      out << "\n";
    }
  }

  const ProgramT &p;
  std::ostringstream out;
};

} // namespace

Expected<std::string> inspectPackage(const std::string &path) {
  ReadOptions options;
  options.checkHashes = false;
  options.checkCpu = false;
  Expected<std::unique_ptr<Package>> package = readPackage(path, options);
  if (!package)
    return package.takeStatus();
  try {
    std::string result = "manifest " + toJson((*package)->manifest);
    for (const auto &[name, tensor] : (*package)->constants.all())
      if (name.rfind("__", 0) != 0)
        result += "constant '" + name + "': " + anabranch::name(tensor.dtype) +
                  " " + std::to_string(tensor.bytes) + " bytes\n";
    for (const ProgramT *program : (*package)->entries()) {
      result += Printer(*program).print("program");
      for (size_t i = 0; i < program->regions.size(); ++i)
        result +=
            Printer(*program->regions[i]).print("region " + std::to_string(i));
    }
    return result;
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  }
}

} // namespace anabranch
