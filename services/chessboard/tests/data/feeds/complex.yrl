<?xml version="1.0" encoding="UTF-8"?>
<realty-feed xmlns="http://webmaster.yandex.ru/schemas/feed/realty/2010-06">
  <generation-date>2026-10-01T12:00:00+03:00</generation-date>
  <!-- Выгрузка отдела продаж -->
  <offer internal-id="А-101">
    <type>продажа</type>
    <property-type>жилая</property-type>
    <category>квартира</category>
    <url>https://example.org/flats/101</url>
    <creation-date>2026-09-01T10:00:00+03:00</creation-date>
    <location>
      <country>Россия</country>
      <locality-name>Казань</locality-name>
      <address>ул. Мира, 1</address>
      <apartment>101</apartment>
    </location>
    <deal-status>первичная продажа</deal-status>
    <price><value>6 500 000</value><currency>RUR</currency></price>
    <sales-agent><phone>+78432000000</phone><category>застройщик</category></sales-agent>
    <area><value>45,1</value><unit>кв. м</unit></area>
    <living-space><value>20,55</value><unit>кв.м</unit></living-space>
    <kitchen-space><value>0</value><unit>кв.м</unit></kitchen-space>
    <rooms>2</rooms>
    <new-flat>1</new-flat>
    <floor>5</floor>
    <floors-total>10</floors-total>
    <building-name>ЖК «Сосны»</building-name>
    <yandex-building-id>12345</yandex-building-id>
    <building-section>Корпус 1</building-section>
    <building-state>unfinished</building-state>
    <built-year>2027</built-year>
    <ready-quarter>3</ready-quarter>
    <renovation>Чистовая отделка</renovation>
    <description><![CDATA[Две комнаты & кухня <b>у леса</b>]]></description>
  </offer>
  <offer internal-id="А-102">
    <type>продажа</type>
    <category>flat</category>
    <location><apartment>102</apartment></location>
    <price><value>3,950,000.50</value><currency>RUB</currency></price>
    <area><value>24.80</value><unit>sq. m</unit></area>
    <studio>1</studio>
    <rooms>студия</rooms>
    <open-plan>0</open-plan>
    <floor>5</floor>
    <yandex-building-id>12345</yandex-building-id>
    <building-section>Корпус 1</building-section>
  </offer>
  <offer internal-id="А-103">
    <type>sale</type>
    <category>квартира</category>
    <apartments>1</apartments>
    <number>103</number>
    <section>подъезд 2</section>
    <position-on-floor>4</position-on-floor>
    <price><value>12000000</value><currency>руб.</currency></price>
    <area><value>101</value></area>
    <rooms>4+</rooms>
    <floor>-1</floor>
    <building-name>Сосны &amp; ели</building-name>
  </offer>
</realty-feed>
