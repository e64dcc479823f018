#include "topicdb/envelope.h"

#include <gtest/gtest.h>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "envelope/golden_envelope.h"

namespace topicdb {
namespace {

Envelope Of(std::string_view payload) {
  Envelope envelope;
  envelope.payload = payload;
  return envelope;
}

Envelope FullEnvelope() {
  Envelope envelope = Of("21.5");
  envelope.qos = 2;
  envelope.retain = true;
  envelope.client_id = "pump-7";
  envelope.payload_format = 1;
  envelope.message_expiry_s = 3'600;
  envelope.content_type = "text/plain";
  envelope.response_topic = "re/7";
  envelope.correlation_data = "\0\xff"sv;
  envelope.user_properties = {{"unit", "\u00b0C"}, {"unit", "K"}};
  envelope.subscription_ids = {1, 300};
  return envelope;
}

std::string WithCrc(std::string bytes) {
  AppendLittle(&bytes, Crc32(bytes));
  return bytes;
}

TEST(Envelope, GoldenBytes) {
  EXPECT_EQ(FullEnvelope().Encode(), kGolden);
  Envelope decoded;
  ASSERT_TRUE(decoded.Decode(kGolden));
  EXPECT_EQ(decoded, FullEnvelope());
}

TEST(Envelope, WhatVersionOneCannotSayIsVersionTwo) {
  Envelope envelope = Of("x");
  envelope.qos = 1;
  envelope.received_at = TimeAt<WallTime>(300);
  const std::string bytes = envelope.Encode();
  EXPECT_EQ(bytes, WithCrc(std::string("\xf5TDE\x02\x01\x01\x0b\xac\x02\x0f\x01x"sv)));
  Envelope decoded;
  ASSERT_TRUE(decoded.Decode(bytes));
  EXPECT_EQ(decoded, envelope);
}

TEST(Envelope, AValueThatLooksLikeOneIsEscaped) {
  EXPECT_EQ(EscapedValue(""), std::nullopt);
  EXPECT_EQ(EscapedValue("plain"), std::nullopt);
  EXPECT_EQ(EscapedValue(kGolden.substr(1)), std::nullopt);
  EXPECT_EQ(EscapedValue(kGolden.substr(0, kGolden.size() - 1)), std::nullopt);
  std::string value = FullEnvelope().Encode();
  for (int depth = 0; depth < 3; ++depth) {
    const std::optional<std::string> escaped = EscapedValue(value);
    ASSERT_TRUE(escaped.has_value());
    EXPECT_EQ(PayloadOf(*escaped), value);
    Envelope decoded;
    ASSERT_TRUE(decoded.Decode(*escaped));
    EXPECT_FALSE(decoded.has_properties);
    value = *escaped;
  }
  EXPECT_EQ(EscapedValue(FullEnvelope().Encode())->substr(0, 8), "\xf5TDE\x02\x0c\x0f\x4d"sv);
}

TEST(Envelope, DamageIsNoticed) {
  Envelope decoded;
  for (std::size_t size = 0; size < kGolden.size(); ++size) {
    EXPECT_FALSE(decoded.Decode(kGolden.substr(0, size)));
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged(kGolden);
      damaged[size] = static_cast<char>(damaged[size] ^ 1 << bit);
      EXPECT_FALSE(decoded.Decode(damaged)) << size;
      EXPECT_EQ(PayloadOf(damaged), damaged);
    }
  }
}

TEST(Envelope, BytesWithARightChecksumThatAreNone) {
  Envelope decoded;
  for (const std::string_view body : {
           "\xf5TDE\x03\x0f\x00"sv,              // an unknown version
           "\xf5TDE\x00\x0f\x00"sv,              // an unknown version, too
           "\xf5TDE\x01\x0b\x00\x0f\x00"sv,      // version 1 does not have this field
           "\xf5TDE\x01\x0c\x0f\x00"sv,          // nor this one
           "\xf5TDE\x02\x0f\x00"sv,              // version 2, but no field needs it
           "\xf5TDE\x02\x0d\x0f\x00"sv,          // an unknown field
           "\xf5TDE\x02\x0c\x01\x01\x0f\x00"sv,  // an escape with properties
           "\xf5TDE\x02\x01\x01\x0c\x0f\x00"sv,  // an escape with properties, too
           "\xf5TDE\x02\x0c\x0c\x0f\x00"sv,      // escaped twice
           "\xf5TDE\x01\x00\x0f\x00"sv,          // field 0 does not exist
           "\xf5TDE\x01\x0f\x05"
           "abc"sv,  // longer than what is left
           "\xf5TDE\x01\x0f\x01"
           "ab"sv,                               // a byte behind the payload
           "\xf5TDE\x01\x06\x01\xff\x0f\x00"sv,  // a text that is not UTF-8
           "\xf5TDE\x01\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x0f\x00"sv,  // over 63 bits
           "\xf5TDE\x01\x01\x02"sv,                                              // no payload
           "\xf5TDE\x01"sv,
       }) {
    EXPECT_FALSE(decoded.Decode(WithCrc(std::string(body)))) << body;
  }
}

TEST(Envelope, DecodingForgetsWhatWasThere) {
  Envelope decoded = FullEnvelope();
  decoded.received_at = TimeAt<WallTime>(5);
  const std::string encoded = Of("p").Encode();  // `decoded` refers to it
  ASSERT_TRUE(decoded.Decode(encoded));
  EXPECT_EQ(decoded, Of("p"));
}

}  // namespace
}  // namespace topicdb
