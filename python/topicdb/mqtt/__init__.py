"""What all modules share that talk to an MQTT broker. Importing it does not import paho-mqtt."""
