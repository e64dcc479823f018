// The manifests of uploads: what Python writes to an object store, and reads from there.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "register.h"
#include "topicdb/database/upload.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// Path, object, bytes and CRC-32.
using FileTuple = std::tuple<std::string, std::string, std::uint64_t, std::uint32_t>;

py::bytes BytesOf(const DatabaseId& id) {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

py::bytes IdOf(const std::string& path) {
  return BytesOf(Unwrap(WithoutGil([&] { return ReadDatabaseId(path); })));
}

py::bytes Encode(const std::string& database, std::uint64_t number, std::int64_t made_at,
                 const std::vector<FileTuple>& files) {
  UploadManifest manifest;
  manifest.number = number;
  manifest.made_at = made_at;
  if (database.size() != manifest.database.size()) {
    throw py::value_error("database: expected an id of 16 bytes, got " +
                          std::to_string(database.size()));
  }
  std::copy(database.begin(), database.end(), manifest.database.begin());
  for (const auto& [path, object, bytes, crc32] : files) {
    manifest.files.push_back({path, object, bytes, crc32});
  }
  return EncodeUpload(manifest);
}

py::tuple Decode(const std::string& data, const std::string& name) {
  const UploadManifest manifest = Unwrap(DecodeUpload(data, name));
  std::vector<FileTuple> files;
  for (const UploadedFile& file : manifest.files) {
    files.emplace_back(file.path, file.object, file.bytes, file.crc32);
  }
  return py::make_tuple(BytesOf(manifest.database), manifest.number, manifest.made_at, files);
}

}  // namespace

void RegisterUpload(py::module_& module) {
  module.def("database_id", &IdOf, py::arg("path"));
  module.def("encode_upload", &Encode, py::arg("database"), py::arg("number"),
             py::arg("made_at_us"), py::arg("files"));
  module.def("decode_upload", &Decode, py::arg("data"), py::arg("name"));
}

}  // namespace topicdb::python
