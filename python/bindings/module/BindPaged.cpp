//===- BindPaged.cpp - attention over the pages of a server ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/PagedDecode.h"
#include "calls/TorchTeam.h"
#include "module/Bind.h"
#include "support/Gil.h"
#include "tensors/Torch.h"

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <string>

namespace nb = nanobind;
using namespace anabranch;
using namespace anabranch::python;

namespace {

/// A tensor of a step. Its name is in messages.
class Argument {
public:
  Argument(const char *name, nb::handle tensor, DType dtype, int32_t rank)
      : name(name) {
    if (!Torch::get().isTensor(tensor.ptr()))
      throw nb::type_error((std::string(name) + " is no tensor").c_str());
    if (!Torch::get().view(tensor.ptr(), view))
      throw nb::python_error();
    if (fromDLPack(view.dtype) != dtype || view.rank != rank)
      throw nb::type_error((std::string(name) + " is no tensor of " +
                            anabranch::name(dtype) + " and " +
                            std::to_string(rank) + " dimensions")
                               .c_str());
  }

  int64_t size(int dim) const { return view.shape[dim]; }
  int64_t step(int dim) const { return view.strides[dim]; }
  template <typename T> T *data() const {
    return reinterpret_cast<T *>(static_cast<char *>(view.data) +
                                 view.byteOffset);
  }

  /// ValueError unless the tensor has these sizes.
  const Argument &expect(std::initializer_list<int64_t> sizes) const {
    if (!std::equal(sizes.begin(), sizes.end(), view.shape))
      refuse("does not have the sizes of the others");
    return *this;
  }
  /// ValueError unless the dimensions from `first` on lie without gaps.
  const Argument &expectDense(int first) const {
    int64_t step = 1;
    for (int dim = view.rank - 1; dim >= first; --dim) {
      if (view.shape[dim] != 1 && view.strides[dim] != step)
        refuse("has gaps");
      step *= view.shape[dim];
    }
    return *this;
  }
  /// ValueError unless the pages of both caches lie at the same steps.
  const Argument &expectStepsOf(const Argument &other) const {
    if (step(0) != other.step(0) || step(1) != other.step(1))
      refuse("does not have the steps of keys");
    return *this;
  }

private:
  const char *name;
  dlpack::Tensor view;

  [[noreturn]] void refuse(const char *why) const {
    throw nb::value_error((std::string(name) + " " + why).c_str());
  }
};

DType dtypeOf(nb::handle query) {
  dlpack::Tensor view;
  if (!Torch::get().isTensor(query.ptr()))
    throw nb::type_error("query is no tensor");
  if (!Torch::get().view(query.ptr(), view))
    throw nb::python_error();
  return fromDLPack(view.dtype).value_or(DType::Bool);
}

PagedDecode describe(nb::handle query, nb::handle key, nb::handle value,
                     nb::handle output, nb::handle keys, nb::handle values,
                     nb::handle table, nb::handle lengths, nb::handle slots,
                     float scale, int64_t window) {
  DType dtype = dtypeOf(query);
  Argument q("query", query, dtype, 3), k("key", key, dtype, 3),
      v("value", value, dtype, 3), o("output", output, dtype, 3),
      ks("keys", keys, dtype, 4), vs("values", values, dtype, 4),
      t("table", table, DType::I32, 2), l("lengths", lengths, DType::I32, 1),
      s("slots", slots, DType::I64, 1);
  int64_t requests = q.size(0), heads = q.size(1), size = q.size(2);
  int64_t keyHeads = k.size(1), pages = ks.size(0), pageSize = ks.size(2);
  q.expectDense(1);
  k.expect({requests, keyHeads, size}).expectDense(1);
  v.expect({requests, keyHeads, size}).expectDense(1);
  o.expect({requests, heads, size}).expectDense(0);
  ks.expect({pages, keyHeads, pageSize, size}).expectDense(2);
  vs.expect({pages, keyHeads, pageSize, size}).expectDense(2);
  vs.expectStepsOf(ks);
  t.expect({requests, t.size(1)}).expectDense(1);
  l.expect({requests}).expectDense(0);
  s.expect({requests}).expectDense(0);
  PagedDecode decode{};
  decode.dtype = dtype;
  decode.requests = requests, decode.heads = heads;
  decode.keyHeads = keyHeads, decode.headSize = size;
  decode.pageSize = pageSize, decode.pages = pages;
  decode.scale = scale, decode.window = window;
  decode.query = q.data<void>(), decode.queryStep = q.step(0);
  decode.key = k.data<void>(), decode.keyStep = k.step(0);
  decode.value = v.data<void>(), decode.valueStep = v.step(0);
  decode.output = o.data<void>();
  decode.keys = ks.data<void>(), decode.values = vs.data<void>();
  decode.pageStep = ks.step(0), decode.headStep = ks.step(1);
  decode.table = t.data<int32_t>();
  decode.tableWidth = t.size(1), decode.tableStep = t.step(0);
  decode.lengths = l.data<int32_t>();
  decode.slots = s.data<int64_t>();
  return decode;
}

/// The tasks of a step, which the threads of a team claim.
class SharedStep {
public:
  SharedStep(const PagedDecode &decode, int threads)
      : decode(decode), tasks(decode.requests * decode.keyHeads),
        atOnce(std::max<int64_t>(1, tasks / (8 * threads))),
        floats(pagedDecodeScratch(decode)),
        scratch(new float[floats * threads]), threads(threads) {}

  void run(const FrameworkTeam *team) {
    if (threads > 1)
      team->run(
          [](void *step, int number) {
            static_cast<SharedStep *>(step)->work(number);
          },
          this);
    else
      work(0);
  }

private:
  const PagedDecode &decode;
  int64_t tasks, atOnce, floats;
  std::unique_ptr<float[]> scratch;
  int threads;
  std::atomic<int64_t> next{0};

  void work(int number) {
    if (number >= threads)
      return; // the team has grown
    for (;;) {
      int64_t first = next.fetch_add(atOnce, std::memory_order_relaxed);
      if (first >= tasks)
        return;
      attendPages(decode, first, std::min(tasks, first + atOnce),
                  scratch.get() + number * floats);
    }
  }
};

void attend(nb::handle query, nb::handle key, nb::handle value,
            nb::handle output, nb::handle keys, nb::handle values,
            nb::handle table, nb::handle lengths, nb::handle slots, float scale,
            int64_t window) {
  PagedDecode decode = describe(query, key, value, output, keys, values, table,
                                lengths, slots, scale, window);
  check(checkPagedDecode(decode));
  GilReleased released;
  const FrameworkTeam *team = torchTeam();
  SharedStep(decode, team ? team->size() : 1).run(team);
}

} // namespace

void anabranch::python::bindPaged(nb::module_ &module) {
  module.def("attend_pages", &attend, nb::arg("query"), nb::arg("key"),
             nb::arg("value"), nb::arg("output"), nb::arg("keys"),
             nb::arg("values"), nb::arg("table"), nb::arg("lengths"),
             nb::arg("slots"), nb::arg("scale"), nb::arg("window") = 0,
             "Writes new keys and values to pages, and attends.");
}
