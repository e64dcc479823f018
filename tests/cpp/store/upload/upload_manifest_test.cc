#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes/checked_record.h"
#include "every_damage.h"
#include "hex.h"
#include "topicdb/database/upload.h"

namespace topicdb {
namespace {

UploadManifest Example() {
  UploadManifest manifest;
  for (std::size_t i = 0; i < manifest.database.size(); ++i) {
    manifest.database[i] = static_cast<std::uint8_t>(i);
  }
  manifest.number = 300;
  manifest.made_at = 1'700'000'000'000'000;
  manifest.files = {{"TOPICDB", "files/a", 7, 0x01020304},
                    {"shards/0000/000012.sst", "files/b", 1 << 20, 0xfffefdfc}};
  return manifest;
}

// DO NOT CHANGE THIS: uploads are read for ever.
TEST(UploadManifest, HasTheBytesOfTheDocs) {
  const std::string golden =
      "54444255504c440a"  // magic
      "01"                // version
      "000102030405060708090a0b0c0d0e0f"
      "ac02"              // number
      "00401e18240a0600"  // made_at
      "02"                // files
      "07544f504943444207"
      "66696c65732f61"
      "0704030201"
      "167368617264732f303030302f3030303031322e73737407"
      "66696c65732f62"
      "808040fcfdfeff";
  const std::string bytes = EncodeUpload(Example());
  EXPECT_EQ(ToHex(bytes.substr(0, bytes.size() - 4)), golden);
  const auto decoded = DecodeUpload(CloseRecord(FromHex(golden)), "m");
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(*decoded, Example());
}

TEST(UploadManifest, EveryDamageIsAnErrorThatNamesIt) {
  ForEachDamage(EncodeUpload(Example()), [](const std::string& damaged) {
    const auto decoded = DecodeUpload(damaged, "s3://b/manifests/1");
    ASSERT_EQ(decoded.status().code(), Code::kCorruption);
    EXPECT_NE(decoded.status().message().find("s3://b/manifests/1"), std::string::npos);
  });
}

TEST(UploadManifest, ANewerFormatIsNamed) {
  std::string bytes = EncodeUpload(Example());
  bytes.resize(bytes.size() - 4);
  bytes[8] = 2;
  const auto decoded = DecodeUpload(CloseRecord(bytes), "m");
  EXPECT_EQ(decoded.status().code(), Code::kSchema);
}

TEST(UploadManifest, FilesOutsideOfADatabaseAreRefused) {
  for (const std::string path : {"", "/etc/passwd", "../x", "shards/../../x", "a//b", "a/", "."}) {
    UploadManifest manifest = Example();
    manifest.files[1].path = path;
    const auto decoded = DecodeUpload(EncodeUpload(manifest), "m");
    EXPECT_EQ(decoded.status().code(), Code::kCorruption) << path;
  }
}

}  // namespace
}  // namespace topicdb
