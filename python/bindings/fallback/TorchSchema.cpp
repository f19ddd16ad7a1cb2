//===- TorchSchema.cpp - what an operator takes and gives -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "fallback/TorchSchema.h"

#include <algorithm>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <utility>

namespace nb = nanobind;
using namespace anabranch::python;

namespace {

/// "int" of "List[int]"; empty when `text` is no `wrapper`.
std::string_view unwrap(std::string_view text, std::string_view wrapper) {
  if (text.substr(0, wrapper.size()) != wrapper || text.back() != ']')
    return {};
  return text.substr(wrapper.size(), text.size() - wrapper.size() - 1);
}

std::string typeText(nb::handle specification) {
  nb::object type = nb::hasattr(specification, "real_type")
                        ? specification.attr("real_type")
                        : specification.attr("type");
  return nb::cast<std::string>(nb::str(type));
}

} // namespace

SchemaType SchemaType::parse(std::string_view text) {
  using Row = std::pair<std::string_view, Kind>;
  static constexpr Row plain[] = {
      {"Tensor", Kind::Tensor},       {"int", Kind::Int},
      {"SymInt", Kind::Int},          {"float", Kind::Float},
      {"bool", Kind::Bool},           {"str", Kind::String},
      {"ScalarType", Kind::DType},    {"Layout", Kind::Layout},
      {"Device", Kind::Device},       {"MemoryFormat", Kind::MemoryFormat},
      {"Generator", Kind::Generator},
  };
  SchemaType type;
  for (auto [wrapper, kind] :
       {Row{"Optional[", Kind::Optional}, Row{"List[", Kind::List}}) {
    std::string_view inner = unwrap(text, wrapper);
    if (inner.empty())
      continue;
    type.kind = kind;
    type.inner = std::make_unique<SchemaType>(parse(inner));
    return type;
  }
  for (auto [spelling, kind] : plain)
    if (spelling == text)
      type.kind = kind;
  return type;
}

void TorchOperator::sortNames() {
  for (const SchemaArgument &argument : arguments)
    placesByName.push_back(static_cast<size_t>(std::count_if(
        arguments.begin(), arguments.end(), [&](const SchemaArgument &other) {
          return other.name < argument.name;
        })));
}

std::unique_ptr<TorchOperator>
TorchOperator::find(const std::string &name, const std::string &overload) {
  auto found = std::make_unique<TorchOperator>();
  found->name = name;
  found->overload = overload;
  try {
    size_t colons = name.find("::");
    std::string space =
        colons == std::string::npos ? "aten" : name.substr(0, colons);
    std::string plain =
        colons == std::string::npos ? name : name.substr(colons + 2);
    nb::object packet = nb::module_::import_("torch")
                            .attr("ops")
                            .attr(space.c_str())
                            .attr(plain.c_str());
    nb::object callable =
        packet.attr(overload.empty() ? "default" : overload.c_str());
    nb::object schema = callable.attr("_schema");
    found->writes = nb::cast<bool>(schema.attr("is_mutable"));
    for (nb::handle argument : schema.attr("arguments"))
      found->arguments.push_back({nb::cast<std::string>(argument.attr("name")),
                                  nb::cast<bool>(argument.attr("kwarg_only")),
                                  SchemaType::parse(typeText(argument))});
    for (nb::handle result : schema.attr("returns"))
      found->returns.push_back(SchemaType::parse(typeText(result)));
    found->sortNames();
    found->callable = callable.release().ptr();
  } catch (nb::python_error &error) {
    error.restore();
    return nullptr;
  }
  return found;
}
