// Events between Python and bytes.
#include "event.hpp"

#include <nanobind/nanobind.h>

#include <vector>

#include "errors.hpp"

namespace nb = nanobind;

namespace tidewire {

namespace {

struct Encoder {
  std::vector<char> shape, values, heap;
  u32 count = 0;

  void clear() {
    shape.clear();
    values.clear();
    heap.clear();
    count = 0;
  }
};

template <class T>
void append(std::vector<char>& to, T value) {
  const std::size_t at = to.size();
  to.resize(at + sizeof value);
  store(to.data() + at, value);
}

void append(std::vector<char>& to, std::string_view bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

nb::handle timestamp_class() {
  static nb::object* found = new nb::object(nb::module_::import_("tidewire.model.values").attr("Timestamp"));
  return *found;
}

[[noreturn]] void refuse(const char* code, const std::string& name, const char* why) {
  throw KernelError(code, "attribute '" + name + "' " + why);
}

std::string_view text_of(PyObject* object, const char* what) {
  if (!PyUnicode_Check(object)) throw KernelError("value-type", std::string(what) + " is not a string");
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text == nullptr) {
    PyErr_Clear();
    throw KernelError("value-type", std::string(what) + " holds characters that UTF-8 cannot (lone surrogates)");
  }
  return {text, static_cast<std::size_t>(size)};
}

void put_text(Encoder& out, std::string_view text, std::string_view name) {
  if (text.size() > kValueMax) refuse("event-too-large", std::string(name), "has more than 1 MiB");
  append(out.values, static_cast<u32>(out.heap.size()));
  append(out.values, static_cast<u32>(text.size()));
  append(out.heap, text);
}

Type put_value(Encoder& out, PyObject* value, std::string_view name) {
  if (PyBool_Check(value)) {
    append(out.values, u64{value == Py_True});
    return Type::kBool;
  }
  if (PyLong_Check(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) refuse("value-range", std::string(name), "is an integer beyond int64; send it as a float or a string");
    append(out.values, static_cast<i64>(number));
    return Type::kInt;
  }
  if (PyFloat_Check(value)) {
    append(out.values, PyFloat_AS_DOUBLE(value));
    return Type::kFloat;
  }
  if (PyUnicode_Check(value)) {
    put_text(out, text_of(value, "a string"), name);
    return Type::kString;
  }
  if (PyBytes_Check(value)) {
    put_text(out, {PyBytes_AS_STRING(value), static_cast<std::size_t>(PyBytes_GET_SIZE(value))}, name);
    return Type::kBytes;
  }
  if (Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(timestamp_class().ptr())) {
    i64 ns = 0;
    if (!nb::try_cast(nb::handle(value).attr("ns"), ns)) refuse("value-range", std::string(name), "is a timestamp beyond int64");
    append(out.values, ns);
    return Type::kTimestamp;
  }
  refuse("value-type", std::string(name), "is of a type that events do not carry; make the event with make_event");
}

void put_attribute(Encoder& out, PyObject* key, PyObject* value) {
  if (!PyUnicode_Check(key)) throw KernelError("attribute-name", "an attribute name is not a string");
  const std::string_view name = text_of(key, "an attribute name");
  if (name.empty() || name.size() > 255)
    throw KernelError("attribute-name", "an attribute name must have 1 to 255 bytes: '" + std::string(name.substr(0, 40)) + "'");
  if (++out.count > kAttributesMax) throw KernelError("event-too-large", "an event has at most 1024 attributes");
  const Type type = put_value(out, value, name);
  append(out.shape, static_cast<u8>(type));
  append(out.shape, static_cast<u8>(name.size()));
  append(out.shape, name);
}

// A field of the envelope, or an error that says that it is not what it must be.
template <class T>
void append_field(std::vector<char>& out, nb::handle field) {
  T value{};
  if (!nb::try_cast(field, value)) throw KernelError("value-range", "a field of the envelope is of the wrong type or out of range");
  append(out, value);
}

u16 put_envelope(std::vector<char>& out, nb::handle fields) {
  if (fields.is_none()) return 0;
  if (!PyTuple_Check(fields.ptr())) throw KernelError("usage", "an envelope is given as a tuple");
  const nb::tuple given = nb::borrow<nb::tuple>(fields);
  if (given.size() != kEnvelopeWidths.size()) throw KernelError("usage", "an envelope has eleven fields");
  u16 bits = 0;
  for (std::size_t i = 0; i < kEnvelopeWidths.size(); ++i) {
    if (given[i].is_none()) continue;
    bits = static_cast<u16>(bits | 1u << i);
    switch (i) {
      case 5:
      case 7: append_field<i64>(out, given[i]); break;
      case 6:
      case 9: append_field<u32>(out, given[i]); break;
      case 8: append_field<double>(out, given[i]); break;
      case 10: {
        if (!PyBytes_Check(given[i].ptr())) throw KernelError("value-type", "a trace is given as bytes");
        const nb::bytes trace = nb::borrow<nb::bytes>(given[i]);
        if (trace.size() != kEnvelopeWidths[10]) throw KernelError("usage", "a trace has 25 bytes");
        append(out, std::string_view(trace.c_str(), trace.size()));
        break;
      }
      default: append_field<u64>(out, given[i]);
    }
  }
  return bits;
}

nb::bytes encode_event(nb::dict attributes, nb::object envelope, nb::object body, nb::object content_type) {
  thread_local Encoder out;
  out.clear();
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(attributes.ptr(), &position, &key, &value)) put_attribute(out, key, value);
  if (out.shape.size() > 0xFFFF) throw KernelError("event-too-large", "the attribute names of an event have at most 65535 bytes");
  std::vector<char> fields;
  const u16 bits = put_envelope(fields, envelope);
  std::string_view payload, type;
  if (body.is_none() && !content_type.is_none()) throw KernelError("usage", "a content type needs a body");
  if (!body.is_none()) {
    if (!PyBytes_Check(body.ptr())) throw KernelError("value-type", "a body is given as bytes");
    payload = {PyBytes_AS_STRING(body.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(body.ptr()))};
    if (!content_type.is_none()) type = text_of(content_type.ptr(), "the content type");
    if (payload.size() > kBodyMax || type.size() > 255)
      throw KernelError("event-too-large", "a body has at most 16 MiB, a content type 255 bytes");
  }
  const std::size_t front = kEventHeader + fields.size() + out.shape.size() + out.values.size() + out.heap.size();
  const std::size_t total = front + (body.is_none() ? 0 : 1 + type.size() + payload.size());
  if (total > 0xFFFFFFFFu) throw KernelError("event-too-large", "an event has at most 4 GiB");
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(total));
  if (made == nullptr) throw nb::python_error();
  char* at = PyBytes_AS_STRING(made);
  at[0] = static_cast<char>(kEventMagic);
  at[1] = static_cast<char>(kEventFormat);
  store(at + 2, bits);
  store(at + 4, static_cast<u16>(out.count));
  store(at + 6, static_cast<u16>(out.shape.size()));
  store(at + 8, static_cast<u32>(total));
  store(at + 12, body.is_none() ? 0u : static_cast<u32>(front));
  at += kEventHeader;
  for (const auto* part : {&fields, &out.shape, &out.values, &out.heap}) {
    if (!part->empty()) std::memcpy(at, part->data(), part->size());
    at += part->size();
  }
  if (!body.is_none()) {
    *at++ = static_cast<char>(type.size());
    if (!type.empty()) std::memcpy(at, type.data(), type.size());
    if (!payload.empty()) std::memcpy(at + type.size(), payload.data(), payload.size());
  }
  return nb::steal<nb::bytes>(made);
}

[[noreturn]] void damaged(const char* why) { throw KernelError("event-damaged", std::string("a damaged event: ") + why); }

nb::object text_object(std::string_view text) {
  PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
  if (made == nullptr) {
    PyErr_Clear();
    damaged("a string is not UTF-8");
  }
  return nb::steal(made);
}

nb::object value_of(const EventView& event, u32 slot, Type type) {
  switch (type) {
    case Type::kBool:
      if (event.bits(slot) > 1) damaged("a boolean is neither true nor false");
      return nb::bool_(event.bits(slot) == 1);
    case Type::kInt: return nb::int_(static_cast<i64>(event.bits(slot)));
    case Type::kFloat: return nb::float_(std::bit_cast<double>(event.bits(slot)));
    case Type::kTimestamp: return timestamp_class()(static_cast<i64>(event.bits(slot)));
    default:
      if (!event.text_is_inside(slot)) damaged("a string lies outside of it");
      const std::string_view text = event.text(slot);
      return type == Type::kString ? text_object(text) : nb::object(nb::bytes(text.data(), text.size()));
  }
}

nb::object envelope_of(const EventView& event) {
  if (event.envelope_bits == 0) return nb::none();
  nb::list fields;
  const char* at = event.envelope.data();
  for (std::size_t i = 0; i < kEnvelopeWidths.size(); ++i) {
    if (!(event.envelope_bits >> i & 1)) {
      fields.append(nb::none());
      continue;
    }
    if (i == 5 || i == 7) fields.append(load<i64>(at));
    else if (i == 6 || i == 9) fields.append(load<u32>(at));
    else if (i == 8) fields.append(load<double>(at));
    else if (i == 10) fields.append(nb::bytes(at, kEnvelopeWidths[10]));
    else fields.append(load<u64>(at));
    at += kEnvelopeWidths[i];
  }
  return nb::tuple(fields);
}

nb::tuple decode_event(nb::bytes data) {
  EventView event;
  if (const char* wrong = view_event({data.c_str(), data.size()}, event)) damaged(wrong);
  nb::dict attributes;
  u32 names = 0;
  const char* wrong = walk_shape(event.shape, event.attribute_count, [&](u32 slot, Type type, std::string_view name) -> const char* {
    attributes[text_object(name)] = value_of(event, slot, type);
    ++names;
    return nullptr;
  });
  if (wrong != nullptr) damaged(wrong);
  if (attributes.size() != names) damaged("an attribute stands in it twice");
  if (!event.has_body) return nb::make_tuple(attributes, envelope_of(event), nb::none(), nb::none());
  const std::size_t type_size = static_cast<u8>(event.tail[0]);
  const std::string_view type = event.tail.substr(1, type_size), body = event.tail.substr(1 + type_size);
  const nb::object content_type = type.empty() ? nb::object(nb::none()) : text_object(type);
  return nb::make_tuple(attributes, envelope_of(event), nb::bytes(body.data(), body.size()), content_type);
}

nb::bytes join_events(nb::list events) {
  const HeldBytes held(events);
  std::size_t total = 0;
  for (const std::string_view event : held.views) total += 4 + event.size();
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(total));
  if (made == nullptr) throw nb::python_error();
  char* at = PyBytes_AS_STRING(made);
  for (const std::string_view event : held.views) {
    store(at, static_cast<u32>(event.size()));
    if (!event.empty()) std::memcpy(at + 4, event.data(), event.size());
    at += 4 + event.size();
  }
  return nb::steal<nb::bytes>(made);
}

}  // namespace

void bind_events(nb::module_& module) {
  module.def("encode_event", &encode_event, nb::arg("attributes"), nb::arg("envelope").none() = nb::none(),
             nb::arg("body").none() = nb::none(), nb::arg("content_type").none() = nb::none(),
             "The bytes of an event with these flat attributes.");
  module.def("decode_event", &decode_event, nb::arg("data"),
             "(attributes, envelope fields, body, content type) of an encoded event.");
  module.def("join_events", &join_events, nb::arg("events"), "A batch: each event behind its length.");
}

}  // namespace tidewire
