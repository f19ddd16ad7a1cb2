//===- Padding.cpp - run in a program of larger sizes ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/shapes/Padding.h"

#include "anabranch/Layout.h"

#include <algorithm>
#include <cstring>
#include <list>

namespace anabranch::runtime {

namespace {

struct Memory {
  explicit Memory(const Device &device) : block(device) {}
  DeviceBuffer block;
  std::vector<int64_t> shape, strides;
};

std::vector<int64_t> contiguousStrides(const std::vector<int64_t> &shape) {
  return anabranch::contiguousStrides(shape.data(),
                                      static_cast<int32_t>(shape.size()));
}

/// Copies `shape` elements. Null strides mean a dense tensor.
void copyBox(const char *from, const int64_t *fromStrides, char *to,
             const int64_t *toStrides, const int64_t *shape, size_t rank,
             size_t item) {
  if (rank == 0) {
    std::memcpy(to, from, item);
    return;
  }
  if (rank == 1 && *fromStrides == 1 && *toStrides == 1) {
    std::memcpy(to, from, item * static_cast<size_t>(*shape));
    return;
  }
  for (int64_t i = 0; i < *shape; ++i)
    copyBox(from + i * *fromStrides * static_cast<int64_t>(item),
            fromStrides + 1, to + i * *toStrides * static_cast<int64_t>(item),
            toStrides + 1, shape + 1, rank - 1, item);
}

/// Gives the program memory for whole results, and cuts the caller's outputs
/// from them.
class CutAllocator : public OutputAllocator {
public:
  CutAllocator(const Device &device,
               const std::vector<package::PaddedDim> &cuts,
               const InputValue *inputs, OutputAllocator &caller)
      : device(device), cuts(cuts), inputs(inputs), caller(caller) {}

  Status allocate(OutputValue *outputs, size_t count) override {
    std::vector<OutputValue> asked(outputs, outputs + count);
    for (const package::PaddedDim &cut : cuts)
      addCut(outputs, cut);
    for (CutOutput &cutOutput : cutOutputs) {
      if (cutOutput.isDense)
        cutOutput.strides = contiguousStrides(cutOutput.shape);
      asked[cutOutput.output].tensor.shape = cutOutput.shape.data();
      asked[cutOutput.output].tensor.strides = cutOutput.strides.data();
    }
    if (Status s = caller.allocate(asked.data(), count); !s.ok())
      return s;
    for (size_t i = 0; i < count; ++i)
      outputs[i].tensor.data = asked[i].tensor.data;
    for (CutOutput &cutOutput : cutOutputs) {
      cutOutput.data = static_cast<char *>(asked[cutOutput.output].tensor.data);
      if (!cutOutput.whole.block.reserve(cutOutput.bytes))
        return Status::outOfMemory();
      outputs[cutOutput.output].tensor.data = cutOutput.whole.block.get();
    }
    return {};
  }

  void handOver(OutputValue *outputs) {
    for (CutOutput &cutOutput : cutOutputs) {
      bool empty = false;
      for (int64_t size : cutOutput.shape)
        empty |= size == 0;
      if (!empty)
        copyBox(static_cast<const char *>(cutOutput.whole.block.get()),
                cutOutput.whole.strides.data(), cutOutput.data,
                cutOutput.strides.data(), cutOutput.shape.data(),
                cutOutput.shape.size(), cutOutput.item);
      outputs[cutOutput.output].tensor.data = cutOutput.data;
    }
  }

private:
  struct CutOutput {
    explicit CutOutput(const Device &device) : whole(device) {}
    size_t output = 0, bytes = 0, item = 0;
    Memory whole;
    bool isDense = true; ///< else its strides do not depend on sizes
    std::vector<int64_t> shape, strides;
    char *data = nullptr;
  };

  void addCut(const OutputValue *outputs, const package::PaddedDim &cut) {
    auto output = static_cast<size_t>(cut.output());
    CutOutput *cutOutput = nullptr;
    for (CutOutput &known : cutOutputs)
      if (known.output == output)
        cutOutput = &known;
    if (!cutOutput) {
      const TensorView &tensor = outputs[output].tensor;
      cutOutput = &cutOutputs.emplace_back(device);
      cutOutput->output = output;
      cutOutput->item = itemSize(tensor.dtype);
      cutOutput->shape.assign(tensor.shape, tensor.shape + tensor.rank);
      cutOutput->strides.assign(tensor.strides, tensor.strides + tensor.rank);
      cutOutput->whole.strides = cutOutput->strides;
      cutOutput->isDense =
          cutOutput->strides == contiguousStrides(cutOutput->shape);
      cutOutput->bytes = static_cast<size_t>(spanOf(tensor)) * cutOutput->item;
    }
    cutOutput->shape[cut.dim()] =
        inputs[cut.input()].tensor.shape[cut.input_dim()];
  }

  const Device &device;
  const std::vector<package::PaddedDim> &cuts;
  const InputValue *inputs;
  OutputAllocator &caller;
  std::list<CutOutput> cutOutputs;
};

/// Fills up one input. False if there is no memory.
bool pad(const InputPlan &plan, const Device &device, InputValue &value,
         std::list<Memory> &memory) {
  TensorView &tensor = value.tensor;
  std::vector<int64_t> shape;
  size_t bytes = itemSize(plan.dtype);
  bool grows = false, empty = false;
  for (size_t d = 0; d < plan.shape.size(); ++d) {
    bool known = plan.shape[d].slot() < 0;
    shape.push_back(known ? plan.shape[d].value() : tensor.shape[d]);
    grows |= shape[d] > tensor.shape[d];
    empty |= tensor.shape[d] == 0;
    bytes *= static_cast<size_t>(shape[d]);
  }
  if (!grows)
    return true;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] < tensor.shape[d])
      return true; // the program reports the wrong size
  Memory &made = memory.emplace_back(device);
  if (!made.block.reserve(bytes))
    return false;
  std::memset(made.block.get(), 0, bytes);
  made.shape = shape;
  made.strides = contiguousStrides(shape);
  for (size_t d = 0; d < plan.strides.size(); ++d)
    made.strides[d] = plan.strides[d].value();
  std::vector<int64_t> dense =
      anabranch::contiguousStrides(tensor.shape, tensor.rank);
  if (!empty)
    copyBox(static_cast<const char *>(tensor.data),
            tensor.strides ? tensor.strides : dense.data(),
            static_cast<char *>(made.block.get()), made.strides.data(),
            tensor.shape, dense.size(), itemSize(plan.dtype));
  tensor = {made.block.get(), made.shape.data(), made.strides.data(),
            tensor.rank, tensor.dtype};
  return true;
}

} // namespace

Status runPadded(const LoadedProgram &program,
                 const std::vector<package::PaddedDim> &cuts,
                 const InputValue *inputs, size_t inputCount,
                 OutputValue *outputs, size_t outputCount,
                 OutputAllocator &allocator) {
  const Plan &plan = program.getPlan();
  try {
    std::vector<InputValue> padded(inputs, inputs + inputCount);
    std::list<Memory> memory;
    for (size_t i = 0; i < inputCount; ++i) {
      const InputPlan &want = plan.inputs[i];
      bool isTensor = inputs[i].kind == InputValue::Kind::Tensor;
      if (want.isScalar && !isTensor) {
        for (const package::SlotLimit &limit : plan.slotLimits)
          if (limit.slot() == want.scalarSlot && limit.min() == limit.max())
            padded[i].scalar = limit.min();
      } else if (!want.isScalar && isTensor &&
                 want.dtype == inputs[i].tensor.dtype &&
                 inputs[i].tensor.rank ==
                     static_cast<int32_t>(want.shape.size()) &&
                 inputs[i].tensor.data) {
        if (!pad(want, *plan.device, padded[i], memory))
          return Status::outOfMemory();
      }
    }
    CutAllocator cutting(*plan.device, cuts, inputs, allocator);
    Status s =
        program.run(padded.data(), inputCount, outputs, outputCount, cutting);
    if (s.ok())
      cutting.handOver(outputs);
    return s;
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  }
}

} // namespace anabranch::runtime
