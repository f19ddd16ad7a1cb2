//===- anabranch-run.cpp - run a package without Python -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "Npy.h"
#include "anabranch/Executable.h"
#include "anabranch/Inspect.h"
#include "anabranch/Trace.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace anabranch;
using tools::Array;

namespace {

constexpr const char *usage =
    R"(usage: anabranch-run PACKAGE [options]
       anabranch-run --machine | --version
  --inputs X...     .npy files and ints, in the order of the program's inputs
                    without its state; without them inputs of fixed shape get
                    random values. State begins as it was exported
  --repeat N        run N times and print the times (default 1)
  --threads T       workers, the calling thread included
  --device NAME     cpu or null
  --output-dir DIR  write output0.npy, output1.npy, ...
  --trace FILE      write a Chrome trace
  --trust WHOM      whose packages are opened: user (default), group or anyone
  --no-hashes       do not compare the files with their hashes
  --machine         print the CPUs, the container's limits and the workers chosen
  --inspect         print the manifest and the program, run nothing
  --version         print the version of the runtime
)";

struct Options {
  std::string package;
  std::vector<std::string> inputs;
  bool hasInputs = false;
  long repeat = 1;
  std::string outputDir, trace;
  bool inspect = false, machine = false, version = false;
  OpenOptions open;
};

int fail(const std::string &message) {
  warn("anabranch-run", message);
  return 1;
}

bool parseNumber(const char *text, int64_t &value) {
  char *end;
  value = std::strtoll(text, &end, 10);
  return end != text && *end == '\0';
}

/// Parses an option without a value. False if the word is none.
bool parseFlag(const std::string &word, Options &o) {
  if (word == "--machine")
    o.machine = true;
  else if (word == "--version")
    o.version = true;
  else if (word == "--inspect")
    o.inspect = true;
  else if (word == "--no-hashes")
    o.open.checkHashes = false;
  else
    return false;
  return true;
}

/// Parses an option with a value. Returns what is wrong with it; empty:
/// nothing.
std::string parseOption(const std::string &word, const char *value,
                        Options &o) {
  int64_t number = 0;
  std::string *text = word == "--device"       ? &o.open.device
                      : word == "--trust"      ? &o.open.trust
                      : word == "--output-dir" ? &o.outputDir
                      : word == "--trace"      ? &o.trace
                                               : nullptr;
  bool isRepeat = word == "--repeat";
  if (!text && !isRepeat && word != "--threads")
    return "there is no option " + word;
  if (!value)
    return word + " needs a value";
  if (text) {
    *text = value;
    return "";
  }
  int64_t most = isRepeat ? INT64_MAX : 1023;
  if (!parseNumber(value, number) || number < 1 || number > most)
    return word + " must be a number from 1" +
           (isRepeat ? "" : " to " + std::to_string(most)) + ", not '" + value +
           "'";
  if (isRepeat)
    o.repeat = number;
  else
    o.open.threads = static_cast<int>(number);
  return "";
}

/// Parses the command line. Returns what is wrong with it; empty: nothing.
std::string parse(int argc, char **argv, Options &o) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      if (!o.package.empty())
        return "there are two packages: " + o.package + " and " + word;
      o.package = word;
    } else if (word == "--inputs") {
      o.hasInputs = true;
      while (i + 1 < argc && std::strncmp(argv[i + 1], "--", 2) != 0)
        o.inputs.push_back(argv[++i]);
    } else if (!parseFlag(word, o)) {
      std::string wrong =
          parseOption(word, i + 1 < argc ? argv[i + 1] : nullptr, o);
      if (!wrong.empty())
        return wrong;
      ++i;
    }
  }
  bool isEnough = o.machine || o.version || !o.package.empty();
  return isEnough ? "" : "no package is named";
}

/// A tensor that owns memory of any layout.
struct Tensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape, strides;
  std::vector<char> bytes;

  void allocate() {
    int64_t last = 0;
    bool empty = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      last += (shape[d] - 1) * strides[d];
      empty |= shape[d] == 0;
    }
    bytes.resize(empty ? 0 : static_cast<size_t>(last + 1) * itemSize(dtype));
  }

  /// Calls `visit(byte offset, number)` for each element in row-major order.
  template <typename Visit> void forEach(Visit visit) const {
    if (bytes.empty())
      return;
    std::vector<int64_t> at(shape.size(), 0);
    auto item = static_cast<int64_t>(itemSize(dtype));
    int64_t offset = 0, number = 0;
    for (;;) {
      visit(offset, number++);
      size_t d = shape.size();
      for (; d-- > 0;) {
        offset += strides[d] * item;
        if (++at[d] < shape[d])
          break;
        offset -= shape[d] * strides[d] * item;
        at[d] = 0;
      }
      if (d == SIZE_MAX)
        return;
    }
  }
};

std::vector<int64_t> denseStrides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t next = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = next;
    next *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

/// A copy of the array in the layout that the program asks for.
Tensor layOut(const Array &array, const InputInfo &info) {
  Tensor t;
  t.dtype = array.dtype;
  t.shape = array.shape;
  bool fixed = info.strides.size() == array.shape.size() &&
               std::all_of(info.strides.begin(), info.strides.end(),
                           [](int64_t stride) { return stride >= 0; });
  t.strides = fixed ? info.strides : denseStrides(t.shape);
  t.allocate();
  size_t item = itemSize(t.dtype);
  t.forEach([&](int64_t offset, int64_t number) {
    std::memcpy(t.bytes.data() + offset,
                array.bytes.data() + static_cast<size_t>(number) * item, item);
  });
  return t;
}

Array gathered(const Tensor &t) {
  Array array;
  array.dtype = t.dtype;
  array.shape = t.shape;
  size_t item = itemSize(t.dtype);
  array.bytes.resize(static_cast<size_t>(array.count()) * item);
  t.forEach([&](int64_t offset, int64_t number) {
    std::memcpy(array.bytes.data() + static_cast<size_t>(number) * item,
                t.bytes.data() + offset, item);
  });
  return array;
}

/// A tensor of values between -1 and 1 for floats, else of zeros, which are
/// valid indices.
Expected<Tensor> invent(const InputInfo &info, size_t number) {
  Tensor t;
  t.dtype = info.dtype;
  t.shape = info.shape;
  t.strides = info.strides;
  for (int64_t size : t.shape)
    if (size < 0)
      return Status(StatusCode::InvalidArgument,
                    "input " + std::to_string(number) + " '" + info.name +
                        "' has a dynamic shape: --inputs must give it");
  t.allocate();
  std::mt19937 random(static_cast<unsigned>(number));
  std::uniform_real_distribution<float> uniform(-1, 1);
  if (t.dtype == DType::F32)
    for (size_t i = 0; i + 4 <= t.bytes.size(); i += 4) {
      float value = uniform(random);
      std::memcpy(t.bytes.data() + i, &value, 4);
    }
  return t;
}

class TensorAllocator : public OutputAllocator {
public:
  Status allocate(OutputValue *outputs, size_t count) override {
    tensors.resize(count);
    for (size_t i = 0; i < count; ++i)
      if (outputs[i].kind == OutputValue::Kind::Tensor)
        make(outputs[i].tensor, tensors[i]);
    return {};
  }
  Status allocateFound(OutputValue &output, size_t index) override {
    make(output.tensor, tensors[index]);
    return {};
  }
  std::vector<Tensor> tensors;

private:
  static void make(TensorView &view, Tensor &t) {
    t.dtype = view.dtype;
    t.shape.assign(view.shape, view.shape + view.rank);
    t.strides.assign(view.strides, view.strides + view.rank);
    t.allocate();
    view.data = t.bytes.data();
  }
};

/// The first value of a state, as a tensor.
Tensor begin(const InputInfo &info) {
  Tensor t;
  t.dtype = info.dtype;
  t.shape = info.shape;
  t.strides = info.strides;
  t.allocate();
  std::memcpy(t.bytes.data(), info.initial, t.bytes.size());
  return t;
}

/// The file that the user gives for each input; null: none. The user gives all
/// inputs, those that are no state, or none.
Expected<std::vector<const std::string *>>
matchInputs(const std::vector<InputInfo> &infos, const Options &o) {
  std::vector<const std::string *> given(infos.size(), nullptr);
  size_t states = std::count_if(infos.begin(), infos.end(),
                                [](const InputInfo &i) { return i.initial; });
  size_t count = o.inputs.size();
  bool isAll = count == infos.size();
  if (o.hasInputs && !isAll && count != infos.size() - states) {
    std::string state =
        states ? " besides " + std::to_string(states) + " of state" : "";
    return Status(StatusCode::InvalidArgument,
                  "the program has " + std::to_string(infos.size() - states) +
                      " inputs" + state + ", --inputs gives " +
                      std::to_string(count));
  }
  size_t next = 0;
  for (size_t i = 0; o.hasInputs && i < infos.size(); ++i)
    if (isAll || !infos[i].initial)
      given[i] = &o.inputs[next++];
  return given;
}

struct Arguments {
  std::vector<Tensor> tensors;
  std::vector<InputValue> values;
};

Expected<Tensor> makeTensor(const InputInfo &info, const std::string *given,
                            size_t number) {
  if (!given)
    return info.initial ? Expected<Tensor>(begin(info)) : invent(info, number);
  Expected<Array> array = tools::readNpy(*given, info.dtype);
  if (!array)
    return array.takeStatus();
  return layOut(*array, info);
}

Status readArguments(const Executable &executable, const Options &o,
                     Arguments &arguments) {
  const std::vector<InputInfo> &infos = executable.inputs();
  Expected<std::vector<const std::string *>> given = matchInputs(infos, o);
  if (!given)
    return given.takeStatus();
  arguments.tensors.resize(infos.size());
  arguments.values.resize(infos.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    InputValue &value = arguments.values[i];
    const std::string *text = (*given)[i];
    if (text && parseNumber(text->c_str(), value.scalar)) {
      value.kind = InputValue::Kind::Scalar;
      continue;
    }
    if (!text && infos[i].isScalar)
      return Status(StatusCode::InvalidArgument, "input " + std::to_string(i) +
                                                     " is an int: --inputs "
                                                     "must give it");
    Expected<Tensor> tensor = makeTensor(infos[i], text, i);
    if (!tensor)
      return tensor.takeStatus();
    Tensor &t = arguments.tensors[i];
    t = std::move(*tensor);
    value.tensor = {t.bytes.data(), t.shape.data(), t.strides.data(),
                    static_cast<int32_t>(t.shape.size()), t.dtype};
  }
  return {};
}

uint64_t checksum(const std::vector<char> &bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : bytes)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

void printOutput(size_t number, const OutputValue &value, const Array &array) {
  switch (value.kind) {
  case OutputValue::Kind::Tensor: {
    std::string shape;
    for (int64_t size : array.shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    std::printf("output %zu: %s[%s] checksum %016llx\n", number,
                name(array.dtype), shape.c_str(),
                static_cast<unsigned long long>(checksum(array.bytes)));
    return;
  }
  case OutputValue::Kind::Alias:
    std::printf("output %zu: input %d\n", number, value.input);
    return;
  case OutputValue::Kind::Scalar:
    std::printf("output %zu: %lld\n", number,
                static_cast<long long>(value.scalar));
    return;
  default:
    std::printf("output %zu: none\n", number);
  }
}

Status runAll(const Executable &executable, const Options &o) {
  Arguments arguments;
  if (Status s = readArguments(executable, o, arguments); !s.ok())
    return s;
  std::vector<OutputValue> outputs(executable.outputs().size());
  TensorAllocator allocator;
  std::vector<double> times;
  for (long i = 0; i < o.repeat; ++i) {
    auto begin = std::chrono::steady_clock::now();
    if (Status s =
            executable.run(arguments.values.data(), arguments.values.size(),
                           outputs.data(), outputs.size(), allocator);
        !s.ok())
      return s;
    std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - begin;
    times.push_back(time.count());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Array array = gathered(allocator.tensors[i]);
    printOutput(i, outputs[i], array);
    if (!o.outputDir.empty() && outputs[i].kind == OutputValue::Kind::Tensor)
      if (Status s = tools::writeNpy(
              o.outputDir + "/output" + std::to_string(i) + ".npy", array);
          !s.ok())
        return s;
  }
  std::sort(times.begin(), times.end());
  std::printf("%ld runs: min %.1f us, median %.1f us\n", o.repeat,
              times.front(), times[times.size() / 2]);
  return {};
}

Status mainWith(const Options &o) {
  if (o.version) {
    std::printf("anabranch-run %s\n", version());
    return {};
  }
  if (o.machine) {
    std::fputs(machineFacts().c_str(), stdout);
    return {};
  }
  if (o.inspect) {
    Expected<std::string> text = inspectPackage(o.package);
    if (!text)
      return text.takeStatus();
    std::fputs(text->c_str(), stdout);
    return {};
  }
  if (!o.trace.empty())
    if (Status s = startTrace(o.trace); !s.ok())
      return s;
  auto executable = Executable::open(o.package, o.open);
  if (!executable)
    return executable.takeStatus();
  Status s = runAll(**executable, o);
  if (o.trace.empty())
    return s;
  Status written = stopTrace();
  return s.ok() ? std::move(written) : std::move(s);
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (std::string wrong = parse(argc, argv, options); !wrong.empty()) {
    warn("anabranch-run", wrong);
    std::fputs(usage, stderr);
    return 2;
  }
  Status s = mainWith(options);
  return s.ok() ? 0 : fail(s.message());
}
