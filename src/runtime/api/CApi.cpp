//===- CApi.cpp - the C API over the C++ one ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/anabranch.h"

#include "anabranch/Executable.h"

#include <new>
#include <vector>

using namespace anabranch;

/// The handles of the C API.
struct anabranch_status {
  Status status;
};
struct anabranch_executable {
  std::shared_ptr<const Executable> executable;
};

namespace {

/// The status to return when a status cannot be allocated.
anabranch_status *outOfMemory() {
  static anabranch_status shared{Status::outOfMemory()};
  return &shared;
}

anabranch_status *handleOf(Status status) {
  if (status.ok())
    return nullptr;
  auto *handle = new (std::nothrow) anabranch_status{std::move(status)};
  return handle ? handle : outOfMemory();
}

TensorView viewOf(const anabranch_tensor &t) {
  return {t.data, t.shape, t.strides, t.rank, static_cast<DType>(t.dtype)};
}

/// Asks the caller's function for the memory of each output.
class CallbackAllocator : public OutputAllocator {
public:
  CallbackAllocator(anabranch_allocate_fn function, void *context)
      : function(function), context(context) {}

  Status allocate(OutputValue *outputs, size_t count) override {
    for (size_t i = 0; i < count; ++i)
      if (outputs[i].kind == OutputValue::Kind::Tensor)
        ask(outputs[i].tensor, i);
    return {};
  }

  Status allocateFound(OutputValue &output, size_t index) override {
    ask(output.tensor, index);
    return {};
  }

private:
  void ask(TensorView &view, size_t index) const {
    anabranch_tensor tensor = {nullptr, view.shape, view.strides, view.rank,
                               static_cast<int32_t>(view.dtype)};
    view.data = function ? function(context, index, &tensor) : nullptr;
  }

  anabranch_allocate_fn function;
  void *context;
};

void fill(anabranch_output &out, const OutputValue &value) {
  out.kind = static_cast<int32_t>(value.kind);
  out.input = value.input;
  out.scalar = value.scalar;
  out.tensor = {value.tensor.data, nullptr, nullptr, value.tensor.rank,
                static_cast<int32_t>(value.tensor.dtype)};
}

Status run(const Executable &executable, const anabranch_input *inputs,
           size_t inputCount, anabranch_output *outputs, size_t outputCount,
           anabranch_allocate_fn allocate, void *context) {
  std::vector<InputValue> in(inputCount);
  for (size_t i = 0; i < inputCount; ++i) {
    in[i].kind = inputs[i].kind == ANABRANCH_INPUT_SCALAR
                     ? InputValue::Kind::Scalar
                     : InputValue::Kind::Tensor;
    in[i].tensor = viewOf(inputs[i].tensor);
    in[i].scalar = inputs[i].scalar;
  }
  std::vector<OutputValue> out(outputCount);
  CallbackAllocator allocator(allocate, context);
  if (Status s = executable.run(in.data(), in.size(), out.data(), out.size(),
                                allocator);
      !s.ok())
    return s;
  for (size_t i = 0; i < outputCount; ++i)
    fill(outputs[i], out[i]);
  return {};
}

/// The fields that inputs and outputs share.
template <typename Info> anabranch_value_info infoOf(const Info &value) {
  anabranch_value_info info = {};
  info.name = value.name.c_str();
  info.dtype = static_cast<int32_t>(value.dtype);
  info.rank = static_cast<int32_t>(value.shape.size());
  info.shape = value.shape.data();
  info.strides = value.strides.data();
  return info;
}

/// Describes the value of this number in a list. `more` adds the fields beside
/// its type.
template <typename Info, typename More>
anabranch_status *describe(const std::vector<Info> &values, const char *what,
                           size_t index, anabranch_value_info *info,
                           More more) {
  if (index >= values.size())
    return handleOf(
        Status(StatusCode::InvalidArgument, std::string("there is no ") + what +
                                                " " + std::to_string(index)));
  *info = infoOf(values[index]);
  more(values[index]);
  return nullptr;
}

} // namespace

anabranch_status *anabranch_open(const char *path,
                                 const anabranch_open_options *options,
                                 anabranch_executable **executable) {
  *executable = nullptr;
  OpenOptions open;
  if (options) {
    if (options->device)
      open.device = options->device;
    open.threads = options->threads;
    open.checkHashes = !options->skip_hashes;
    if (options->target)
      open.target = options->target;
    if (options->trust)
      open.trust = options->trust;
  }
  auto opened = Executable::open(path ? path : "", open);
  if (!opened)
    return handleOf(opened.takeStatus());
  *executable = new (std::nothrow) anabranch_executable{std::move(*opened)};
  return *executable ? nullptr : outOfMemory();
}

void anabranch_close(anabranch_executable *executable) { delete executable; }

size_t anabranch_input_count(const anabranch_executable *executable) {
  return executable->executable->inputs().size();
}

size_t anabranch_output_count(const anabranch_executable *executable) {
  return executable->executable->outputs().size();
}

const char *anabranch_input_name(const anabranch_executable *executable,
                                 size_t index) {
  const auto &inputs = executable->executable->inputs();
  return index < inputs.size() ? inputs[index].name.c_str() : nullptr;
}

anabranch_status *
anabranch_describe_input(const anabranch_executable *executable, size_t index,
                         anabranch_value_info *info) {
  auto more = [info](const InputInfo &input) {
    info->kind =
        input.isScalar ? ANABRANCH_INPUT_SCALAR : ANABRANCH_INPUT_TENSOR;
    info->mutated = input.mutated;
    info->initial = input.initial;
  };
  return describe(executable->executable->inputs(), "input", index, info, more);
}

anabranch_status *
anabranch_describe_output(const anabranch_executable *executable, size_t index,
                          anabranch_value_info *info) {
  auto more = [info](const OutputInfo &output) {
    info->kind = static_cast<int32_t>(output.kind);
  };
  return describe(executable->executable->outputs(), "output", index, info,
                  more);
}

const char *anabranch_target(const anabranch_executable *executable) {
  return executable->executable->target().c_str();
}

const char *anabranch_dtype_name(int32_t dtype) {
  return dtype >= 0 && dtype < dtypeCount ? name(static_cast<DType>(dtype))
                                          : nullptr;
}

size_t anabranch_item_size(int32_t dtype) {
  return dtype >= 0 && dtype < dtypeCount ? itemSize(static_cast<DType>(dtype))
                                          : 0;
}

anabranch_status *anabranch_run(const anabranch_executable *executable,
                                const anabranch_input *inputs,
                                size_t input_count, anabranch_output *outputs,
                                size_t output_count,
                                anabranch_allocate_fn allocate, void *context) {
  try {
    return handleOf(run(*executable->executable, inputs, input_count, outputs,
                        output_count, allocate, context));
  } catch (const std::bad_alloc &) {
    return outOfMemory();
  }
}

int anabranch_status_code_of(const anabranch_status *status) {
  return status ? static_cast<int>(status->status.code()) : ANABRANCH_OK;
}

const char *anabranch_status_message(const anabranch_status *status) {
  return status ? status->status.message().c_str() : "";
}

void anabranch_status_free(anabranch_status *status) {
  if (status != outOfMemory())
    delete status;
}

void anabranch_set_default_threads(int32_t threads) {
  setDefaultThreads(threads);
}

anabranch_status *anabranch_pin_workers(const char *where) {
  return handleOf(pinWorkers(where ? where : "off"));
}

const char *anabranch_version(void) { return version(); }

static_assert(static_cast<int>(StatusCode::Internal) == ANABRANCH_INTERNAL);
static_assert(static_cast<int>(DType::F8E5M2FNUZ) == ANABRANCH_F8E5M2FNUZ);
static_assert(static_cast<int>(OutputValue::Kind::None) ==
              ANABRANCH_OUTPUT_NONE);
