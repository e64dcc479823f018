"""What everything shares that talks to an MQTT broker. Does not import paho-mqtt by itself."""
